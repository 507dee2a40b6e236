//! Commands of places: members of sorted sets, whose scores stand for them.

mod cells;
mod search;

use self::cells::EarthPlace;
use super::args::syntax;
use super::float;
use super::sorted_sets::members::{AddTerms, add_members};
use super::sorted_sets::stored::{self, find};
use crate::exec::{Answer, Halt, View};
use crate::model::record::Collection;
use crate::resp::reply::Reply;

pub use self::search::{
    georadius, georadius_ro, georadiusbymember, georadiusbymember_ro, geosearch, geosearchstore,
};

/// A number of degrees, or of units.
fn coordinate(text: &[u8], error: &'static str) -> Answer<f64> {
    float::double(text).ok_or_else(|| Halt::error(error))
}

/// The place of two arguments.
fn place(longitude: &[u8], latitude: &[u8]) -> Answer<EarthPlace> {
    let [longitude, latitude] =
        [longitude, latitude].map(|text| coordinate(text, "ERR value is not a valid float"));
    let (longitude, latitude) = (longitude?, latitude?);
    let found = EarthPlace::of(longitude, latitude);
    let why = || format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
    found.ok_or_else(|| Halt::error(why()))
}

/// Metres of a unit.
fn unit(name: &[u8]) -> Answer<f64> {
    match &*name.to_ascii_lowercase() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err(Halt::error("ERR unsupported unit provided. please use M, KM, FT, MI")),
    }
}

/// A distance as it is told: with four digits behind the point.
fn told_distance(distance: f64) -> Reply {
    let scaled = (distance * 10_000.0).round_ties_even() as u64;
    Reply::Bulk(format!("{}.{:04}", scaled / 10_000, scaled % 10_000).into())
}

/// A place as it is told.
fn told_place(place: EarthPlace) -> Reply {
    Reply::Array(vec![Reply::Decimal(place.longitude), Reply::Decimal(place.latitude)])
}

/// The place of a member, if that is there.
fn of_member(
    zset: Option<Collection>,
    member: &[u8],
    view: &View<'_>,
) -> Answer<Option<EarthPlace>> {
    let score = zset.map(|zset| stored::score(zset, member, view)).transpose()?.flatten();
    Ok(score.map(EarthPlace::of_score))
}

/// `GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]`
pub fn geoadd<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let known = [&b"nx"[..], b"xx", b"ch"];
    let is_known = |word: &&&[u8]| known.contains(&&*word.to_ascii_lowercase());
    let words = args[2..].iter().take_while(is_known).count();
    let (words, places) = args[2..].split_at(words);
    let (terms, _) = AddTerms::of(words, false);
    if places.is_empty() || places.len() % 3 != 0 || terms.only_new && terms.only_old {
        return Err(syntax());
    }
    let scored = |part: &[&'a [u8]]| Ok((place(part[0], part[1])?.score(), part[2]));
    let scored = places.chunks_exact(3).map(scored).collect::<Answer<Vec<_>>>()?;
    add_members(args[1], terms, &scored, view)
}

/// `GEODIST key member member [M | KM | FT | MI]`
pub fn geodist(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let unit = match &args[4..] {
        [] => 1.0,
        [name] => unit(name)?,
        _ => return Err(syntax()),
    };
    let zset = find(args[1], view)?;
    let places = of_member(zset, args[2], view)?.zip(of_member(zset, args[3], view)?);
    Ok(places.map_or(Reply::Nil, |(one, other)| told_distance(one.distance(other) / unit)))
}

/// What is told of each member of a key.
fn members(
    args: &[&[u8]],
    view: &View<'_>,
    none: &Reply,
    told: impl Fn(EarthPlace) -> Reply,
) -> Answer {
    let zset = find(args[1], view)?;
    let member = |member: &&[u8]| {
        let place = of_member(zset, member, view)?;
        Ok(place.map_or_else(|| none.clone(), &told))
    };
    args[2..].iter().map(member).collect::<Answer<_>>().map(Reply::Array)
}

/// `GEOPOS key [member ...]`
pub fn geopos(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    members(args, view, &Reply::NilArray, told_place)
}

/// `GEOHASH key [member ...]`
pub fn geohash(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    members(args, view, &Reply::Nil, |place| Reply::Bulk(place.text().into()))
}
