//! HyperLogLogs and places: scripts, and sets that are larger than drawn ones.

use fastrand::Rng;

use crate::Both;
use crate::fixed::assert_scripts;
use crate::wire::Pair;

const SCRIPTS: &str = r#"
SET a HYLL
PFCOUNT a
PFADD a x
SET a "HYLL\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff"
PFCOUNT a
SET a "HYLL\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff"
PFCOUNT a
SET a "HYLL\x01\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x7f\xff"
PFCOUNT a
PFCOUNT a b
SET a "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xf0"
PFCOUNT a
PFCOUNT a b
PFMERGE b a
EXISTS b
SET a "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff\x00"
PFCOUNT a
PFADD a x y z
GET a

DEL a
PFADD a x
EXPIREAT a 4000000000
PFADD a y
PFCOUNT a
EXPIRETIME a
GET a
PFADD a y
GET a
PFMERGE a
GET a
PFMERGE b a c
GET b
RPUSH l x
PFADD l x
PFCOUNT a l
PFMERGE a l
PFADD

DEL a
GEOADD a nx xx 1 1 m
GEOADD a nx ch
GEOADD a nx ch ch
GEOADD a 1 1
GEOADD a 181 0 m
GEOADD a inf 0 m
GEOADD a 0 85.06 m
GEOADD a x 0 m
GEOADD a 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
GEOADD a CH 13.361390 38.115556 Palermo
GEOADD a CH 13.361390 38.115556 Palermo
GEODIST a Palermo Catania
GEODIST a Palermo Catania km
GEODIST a Palermo Catania x
GEODIST a Palermo Catania km x
GEODIST nothing Palermo Catania x
GEODIST a Palermo nothing
GEOHASH a Palermo nothing Catania
GEOPOS a Palermo nothing Catania
GEOPOS nothing a
GEOPOS a
GEORADIUS a 15 37 200 km WITHDIST ASC
GEORADIUS a 15 37 200 km WITHCOORD DESC COUNT 1
GEORADIUS a 15 37 200 km COUNT 1
GEORADIUS a 15 37 200 km COUNT 0
GEORADIUS a 15 37 200 km COUNT x
GEORADIUS a 15 37 200 km ANY
GEORADIUS a 15 37 200 km COUNT
GEORADIUS a 15 37 -1 km
GEORADIUS a 15 37 x km
GEORADIUS a 15 37 200 km STORE b WITHDIST
GEORADIUS a 15 37 200 km STORE b STOREDIST c
ZRANGE c 0 -1 WITHSCORES
EXISTS b
GEORADIUS a 0 0 1 km STORE c
EXISTS c
GEORADIUS_RO a 15 37 200 km STORE b
GEORADIUSBYMEMBER a nothing 200 km
GEORADIUSBYMEMBER nothing m x y
GEORADIUSBYMEMBER a Palermo 166 km
GEORADIUSBYMEMBER nothing m x y STORE b
GEOSEARCH a FROMMEMBER Palermo FROMLONLAT 15 37 BYRADIUS 200 km
GEOSEARCH a BYRADIUS 200 km ASC ASC ASC
geosearch a FROMLONLAT 15 37 ASC ASC ASC
GEOSEARCH a FROMLONLAT 15 37 BYBOX 400 400 km BYRADIUS 1 m
GEOSEARCH a FROMLONLAT 15 37 BYBOX 400 -400 km ASC
GEOSEARCH a FROMLONLAT 15 37 BYBOX x 400 km ASC
GEOSEARCH a FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHCOORD WITHDIST WITHHASH
GEOSEARCH a FROMLONLAT 15 37 BYBOX 400 400 km STOREDIST
GEOSEARCHSTORE b a FROMLONLAT 15 37 BYBOX 400 400 km ASC STOREDIST
ZRANGE b 0 -1 WITHSCORES
GEOSEARCHSTORE b a FROMLONLAT 15 37 BYBOX 400 400 km WITHDIST
GEOSEARCHSTORE b nothing FROMMEMBER x BYBOX 400 400 km
EXISTS b
SET s v
GEOADD s 1 1 m
GEOSEARCH s x y z x y z
COMMAND GETKEYS GEORADIUS a 15 37 200 km STORE b
COMMAND GETKEYS GEORADIUSBYMEMBER a m 200 km STOREDIST b
COMMAND GETKEYS GEOSEARCHSTORE a b FROMLONLAT 15 37 BYBOX 400 400 km
COMMAND GETKEYS PFMERGE a b c
"#;

#[test]
fn sketches_and_places_are_alike() {
    let Some(both) = Both::start(None) else { return };
    assert_scripts(&both, SCRIPTS);
}

/// Fails if the replies to a command differ.
fn call(pair: &mut Pair, line: &str) {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let [ours, theirs] = pair.call(&args);
    assert!(ours == theirs, "{line}\n{}\n{}", ours.shown(), theirs.shown());
}

#[test]
fn a_sketch_grows_alike() {
    let Some(both) = Both::start(None) else { return };
    let (mut pair, mut rng) = (both.pair(), Rng::with_seed(3));
    for round in 0..400 {
        let elements: Vec<_> = (0..rng.usize(1..40)).map(|_| rng.u32(..).to_string()).collect();
        call(&mut pair, &format!("PFADD s{} {}", round % 2, elements.join(" ")));
        call(&mut pair, "PFCOUNT s0");
        call(&mut pair, "PFCOUNT s1 s0");
        call(&mut pair, "GET s0");
        call(&mut pair, &format!("PFMERGE m{} s0 s1", round / 50));
        call(&mut pair, &format!("GET m{}", round / 50));
    }
}

#[test]
fn places_are_found_alike() {
    let Some(both) = Both::start(None) else { return };
    let (mut pair, mut rng) = (both.pair(), Rng::with_seed(4));
    let degrees = |rng: &mut Rng, most: f64| (rng.f64() * 2.0 - 1.0) * most;
    for member in 0..3000 {
        // Some lie close together.
        let most = if member % 2 == 0 { [180.0, 85.0] } else { [2.0, 2.0] };
        let [longitude, latitude] = most.map(|most| degrees(&mut rng, most));
        call(&mut pair, &format!("GEOADD a {longitude} {latitude} m{member}"));
    }
    call(&mut pair, "ZRANGE a 0 -1 WITHSCORES");
    pair.call(&[b"HELLO", b"3"]);
    call(&mut pair, "GEOPOS a m0 m1 nothing");
    call(&mut pair, "GEORADIUS a 1 1 200 km WITHDIST WITHCOORD WITHHASH");
    call(&mut pair, "GEODIST a m0 m1");
    for _ in 0..1500 {
        let most = if rng.bool() { [180.0, 85.0] } else { [3.0, 3.0] };
        let [longitude, latitude] = most.map(|most| degrees(&mut rng, most));
        let mut size = || 10_f64.powf(rng.f64() * 7.5);
        let (width, height) = (size(), size());
        let from = match rng.bool() {
            true => format!("FROMMEMBER m{}", rng.u32(..3000)),
            false => format!("FROMLONLAT {longitude} {latitude}"),
        };
        let by = match rng.bool() {
            true => format!("BYRADIUS {width} m"),
            false => format!("BYBOX {width} {height} ft"),
        };
        let words = ["", " ASC WITHDIST", " DESC WITHCOORD WITHHASH", " COUNT 5", " COUNT 50 ANY"];
        let words = words[rng.usize(..words.len())];
        call(&mut pair, &format!("GEOSEARCH a {from} {by}{words}"));
        let [one, other] = [rng.u32(..3000), rng.u32(..3000)];
        call(&mut pair, &format!("GEODIST a m{one} m{other} km"));
        call(&mut pair, &format!("GEOHASH a m{one}"));
    }
}
