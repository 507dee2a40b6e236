//! Commands of HyperLogLogs, of places, of dumps and of servers that are drawn. Places are few, so
//! that many are found, and some lie at the same distance, where Redis has an order only if all
//! that are found are told.

/// The commands.
pub const FORMS: &str = "\
pfadd K V
pfadd K N+
pfadd K ANY+
pfadd K
pfcount K
pfcount K+
pfmerge K
pfmerge K K+
setrange K 16 V
append K V
role
lolwut
latency help
latency latest
latency history V
latency reset [V]
latency histogram [get]
latency doctor
latency graph V
memory doctor
client unpause
dump K
restore K 0 DUMP [replace] [idletime O] [freq O]
restore K M DUMP [replace] [absttl]
restore K I DUMP replace absttl
geoadd K PLACE+
geoadd K PLACE+
geoadd K [nx] [xx] [ch] PLACE
geoadd K nx PLACE+
geoadd K ch xx PLACE+
geodist K N N
geodist K N N UNIT
geohash K N+
geohash K
geopos K N+
georadius K LON LAT SIZE UNIT [withcoord] [withdist] [withhash] [asc] [desc]
georadius K LON LAT SIZE UNIT [count O any] [store K] [storedist K]
georadius_ro K LON LAT SIZE UNIT [withcoord] [withdist] [asc] [desc] [any]
georadiusbymember K N SIZE UNIT [withcoord] [withdist] [withhash] [asc] [store K]
georadiusbymember K N SIZE UNIT [count O any] [store K] [storedist K]
georadiusbymember_ro K N SIZE UNIT [withhash] [withdist] [desc] [store K]
geosearch K fromlonlat LON LAT byradius SIZE UNIT [asc] [desc] [withdist] [count O any]
geosearch K frommember N byradius SIZE UNIT [desc] [withcoord] [withhash]
geosearch K frommember N bybox SIZE SIZE UNIT [asc] [withdist] [withcoord]
geosearch K [fromlonlat LON LAT] [frommember N] [bybox SIZE SIZE UNIT] [byradius SIZE UNIT] asc
geosearchstore K K fromlonlat LON LAT bybox SIZE SIZE UNIT [storedist] [withdist] [asc]
geosearchstore K K frommember N byradius SIZE UNIT [storedist] [count O any]
";

/// Arguments of a kind.
pub fn arguments(kind: &str) -> &'static [&'static [u8]] {
    match kind {
        "LON" => LONGITUDES,
        "LAT" => LATITUDES,
        "SIZE" => SIZES,
        "DUMP" => DUMPS,
        _ => &[b"m", b"m", b"km", b"KM", b"ft", b"mi", b"x"],
    }
}

const LONGITUDES: &[&[u8]] = &[
    b"0",
    b"-180",
    b"180",
    b"13.361389",
    b"15.087269",
    b"-122.4",
    b"1e-7",
    b"179.99",
    b"-179.99",
    b"181",
    b"x",
];

const LATITUDES: &[&[u8]] = &[
    b"0",
    b"85.05112878",
    b"-85.05112878",
    b"38.115556",
    b"37.502669",
    b"-70",
    b"67.5",
    b"81",
    b"-1e-7",
    b"86",
    b"nan",
];

const SIZES: &[&[u8]] = &[
    b"0", b"1", b"100", b"200", b"1000", b"5000", b"20000", b"1e9", b"inf", b"0.001", b"-1", b"x",
];

/// Dumps of Redis of each type, and one that was changed.
const DUMPS: &[&[u8]] = &[
    b"\x00\xc0\x0c\x0a\x00<*\xf8Q\x5c\x04\xbc\xd5",
    b"\x00\xc3\x09@F\x01aa\xe09\x00\x01aa\x0a\x00\x84\xdeX\x89\xeb\x96\xba\xa3",
    b"\x12\x01\x02\x11\x11\x00\x00\x00\x04\x00\x81a\x02\x0c\x01\xdf\xfe\x02\x80\x01\xff\
      \x0a\x00j\x9fG\x81\xf6\x90_\x0b",
    b"\x0b\x0e\x02\x00\x00\x00\x03\x00\x00\x00\xfe\xff\x01\x00,\x01\x0a\x00[\x0a\xa8b\xf7\
      \x94`\x0a",
    b"\x02\x02\xc0\x01\x01a\x0a\x00\xb0d\xe3\xd3l\xb0~\xb6",
    b"\x10\x12\x12\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x81c\x02\x81b\x02\xff\x0a\x00\xc6\
      \xe6\x1aC\x98$\xca\xe3",
    b"\x11\x1b\x1b\x00\x00\x00\x06\x00\x81a\x02\x01\x01\x81c\x02\x832.5\x04\x80\x01\x83inf\
      \x04\xff\x0a\x00\xaf!\x1e\x18\xd8\xf5\xc3g",
    b"\x12\x01\x02\x10\x11\x00\x00\x00\x04\x00\x81a\x02\x0c\x01\xdf\xfe\x02\x80\x01\xff\
      \x0a\x00j\x9fG\x81\xf6\x90_\x0b",
];
