//! Commands of HyperLogLogs and of places that are drawn. Places are few, so that many are found,
//! and some lie at the same distance, where Redis has an order only if all that are found are told.

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
