//! Searches for members whose places lie in an area.

use std::ops::{Bound, ControlFlow};

use bytes::Bytes;

use super::cells::{Area, EarthPlace, Shape};
use super::{coordinate, of_member, place, told_distance, told_place, unit};
use crate::command::args::{at_least, is, number, showing, syntax};
use crate::command::sorted_sets::stored::{self, find, walk};
use crate::exec::{Answer, Halt, View};
use crate::model::element;
use crate::model::record::Collection;
use crate::resp::reply::Reply;

/// What the name of a command says of its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchForm {
    /// The area is known; a key may be named where the result goes.
    Radius,
    /// The area is known.
    RadiusReadOnly,
    /// The area is named.
    Search,
    /// The area is named, and the result goes to a key.
    SearchStore,
}

/// The middle of an area, and how it was named.
#[derive(Clone, Copy, Debug)]
enum Center {
    Member(EarthPlace),
    Given(EarthPlace),
}

/// What a search is for.
struct SearchTerms<'a> {
    center: Option<Center>,
    /// How large the area is, and metres of its unit.
    shape: Option<(Shape, f64)>,
    with_distance: bool,
    with_score: bool,
    with_place: bool,
    /// Whether the first members that are found will do.
    any: bool,
    /// Most members, or all of 0.
    count: u64,
    /// Whether the farthest comes first, if there is an order.
    is_descending: Option<bool>,
    /// Where the result goes.
    store: Option<&'a [u8]>,
    /// Whether distances are stored as scores.
    stores_distances: bool,
}

/// A member that was found.
struct FoundPlace {
    member: Bytes,
    score: f64,
    place: EarthPlace,
    /// Metres from the middle.
    distance: f64,
}

fn circle(radius: &[u8], name: &[u8]) -> Answer<(Shape, f64)> {
    let radius = coordinate(radius, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(Halt::error("ERR radius cannot be negative"));
    }
    Ok((Shape::Circle(radius), unit(name)?))
}

fn rectangle(width: &[u8], height: &[u8], name: &[u8]) -> Answer<(Shape, f64)> {
    let width = coordinate(width, "ERR need numeric width")?;
    let height = coordinate(height, "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err(Halt::error("ERR height or width cannot be negative"));
    }
    Ok((Shape::Box(width, height), unit(name)?))
}

/// The place of a member that a search is around. Without a sorted set any will do.
fn center(zset: Option<Collection>, member: &[u8], view: &View<'_>) -> Answer<Center> {
    let found = of_member(zset, member, view)?;
    if zset.is_some() && found.is_none() {
        return Err(Halt::error("ERR could not decode requested zset member"));
    }
    Ok(Center::Member(found.unwrap_or_default()))
}

impl<'a> SearchTerms<'a> {
    /// The terms without words.
    fn new(area: Option<(Center, (Shape, f64))>, store: Option<&'a [u8]>) -> Self {
        let (center, shape) = area.unzip();
        Self {
            center,
            shape,
            with_distance: false,
            with_score: false,
            with_place: false,
            any: false,
            count: 0,
            is_descending: None,
            store,
            stores_distances: false,
        }
    }

    /// Takes the words of a command, which come in whatever order.
    fn take(
        &mut self,
        form: SearchForm,
        zset: Option<Collection>,
        mut words: &[&'a [u8]],
        view: &View<'_>,
    ) -> Answer<()> {
        while let [word, rest @ ..] = words {
            words = match rest {
                _ if is(word, "WITHDIST") => {
                    self.with_distance = true;
                    rest
                }
                _ if is(word, "WITHHASH") => {
                    self.with_score = true;
                    rest
                }
                _ if is(word, "WITHCOORD") => {
                    self.with_place = true;
                    rest
                }
                _ if is(word, "ANY") => {
                    self.any = true;
                    rest
                }
                _ if is(word, "ASC") || is(word, "DESC") => {
                    self.is_descending = Some(is(word, "DESC"));
                    rest
                }
                [text, rest @ ..] if is(word, "COUNT") => {
                    number(text)?;
                    self.count = at_least(text, 1, "ERR COUNT must be > 0")?.cast_unsigned();
                    rest
                }
                [key, rest @ ..]
                    if form == SearchForm::Radius
                        && (is(word, "STORE") || is(word, "STOREDIST")) =>
                {
                    self.store = Some(key);
                    self.stores_distances = is(word, "STOREDIST");
                    rest
                }
                _ if form == SearchForm::SearchStore && is(word, "STOREDIST") => {
                    self.stores_distances = true;
                    rest
                }
                _ if matches!(form, SearchForm::Search | SearchForm::SearchStore) => {
                    self.take_area(zset, word, rest, view)?
                }
                _ => return Err(syntax()),
            };
        }
        Ok(())
    }

    /// Takes a word about the area with those that belong to it; the words behind.
    fn take_area<'w>(
        &mut self,
        zset: Option<Collection>,
        word: &[u8],
        rest: &'w [&'a [u8]],
        view: &View<'_>,
    ) -> Answer<&'w [&'a [u8]]> {
        let is_around_member = matches!(self.center, Some(Center::Member(_)));
        let is_around_place = matches!(self.center, Some(Center::Given(_)));
        let is_box = matches!(self.shape, Some((Shape::Box(..), _)));
        let is_circle = matches!(self.shape, Some((Shape::Circle(_), _)));
        Ok(match rest {
            [member, rest @ ..] if is(word, "FROMMEMBER") && !is_around_place => {
                self.center = Some(center(zset, member, view)?);
                rest
            }
            [longitude, latitude, rest @ ..] if is(word, "FROMLONLAT") && !is_around_member => {
                self.center = Some(Center::Given(place(longitude, latitude)?));
                rest
            }
            [radius, name, rest @ ..] if is(word, "BYRADIUS") && !is_box => {
                self.shape = Some(circle(radius, name)?);
                rest
            }
            [width, height, name, rest @ ..] if is(word, "BYBOX") && !is_circle => {
                self.shape = Some(rectangle(width, height, name)?);
                rest
            }
            _ => return Err(syntax()),
        })
    }

    /// The area, unless a word is missing or does not fit another one.
    fn area(&self, form: SearchForm, command: &[u8]) -> Answer<Area> {
        if self.store.is_some() && (self.with_distance || self.with_score || self.with_place) {
            let what = match form {
                SearchForm::SearchStore => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            };
            let why = "is not compatible with WITHDIST, WITHHASH and WITHCOORD options";
            return Err(Halt::error(format!("ERR {what} {why}")));
        }
        let Some(Center::Member(center) | Center::Given(center)) = self.center else {
            let why = "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ";
            return Err(showing(why, command, ""));
        };
        let Some((shape, unit)) = self.shape else {
            let why = "ERR exactly one of BYRADIUS and BYBOX can be specified for ";
            return Err(showing(why, command, ""));
        };
        if self.any && self.count == 0 {
            return Err(Halt::error("ERR the ANY argument requires COUNT argument"));
        }
        Ok(Area { center, shape, unit })
    }

    /// The members in an area that are asked for, in their order.
    fn found(&self, zset: Collection, area: &Area, view: &View<'_>) -> Answer<Vec<FoundPlace>> {
        let most = if self.count == 0 { u64::MAX } else { self.count };
        let is_enough = |found: &[FoundPlace]| self.any && found.len() as u64 >= most;
        let mut found = Vec::new();
        for cell in area.cells() {
            if is_enough(&found) {
                break;
            }
            let scores = cell.scores();
            let [from, to] = [scores.start, scores.end].map(element::of_score);
            let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
            walk(zset, range, false, view, &mut |member, score| {
                let place = EarthPlace::of_score(score);
                let Some(distance) = area.distance(place) else {
                    return ControlFlow::Continue(());
                };
                let member = Bytes::copy_from_slice(member);
                let bytes = member.len();
                found.push(FoundPlace { member, score, place, distance });
                if is_enough(&found) { ControlFlow::Break(()) } else { view.holding(bytes) }
            })?;
        }
        let is_ordered = self.is_descending.is_some() || self.count > 0 && !self.any;
        if is_ordered {
            let is_descending = self.is_descending == Some(true);
            found.sort_by(|one, other| match is_descending {
                true => other.distance.total_cmp(&one.distance),
                false => one.distance.total_cmp(&other.distance),
            });
        }
        found.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(found)
    }

    fn told(&self, found: FoundPlace, unit: f64) -> Reply {
        let mut told = vec![Reply::Bulk(found.member)];
        if self.with_distance {
            told.push(told_distance(found.distance / unit));
        }
        if self.with_score {
            told.push(Reply::Integer(found.score as i64));
        }
        if self.with_place {
            told.push(told_place(found.place));
        }
        match told.len() {
            1 => told.remove(0),
            _ => Reply::Array(told),
        }
    }
}

fn search<'a>(
    args: &[&'a [u8]],
    zset: Option<Collection>,
    form: SearchForm,
    terms: &SearchTerms<'a>,
    view: &mut View<'a>,
) -> Answer {
    let area = terms.area(form, args[0])?;
    let found = zset.map_or(Ok(Vec::new()), |zset| terms.found(zset, &area, view))?;
    let Some(key) = terms.store else {
        let told = found.into_iter().map(|found| terms.told(found, area.unit));
        return Ok(Reply::Array(told.collect()));
    };
    let score = |found: FoundPlace| match terms.stores_distances {
        true => (found.member, found.distance / area.unit),
        false => (found.member, found.score),
    };
    let members: Vec<_> = found.into_iter().map(score).collect();
    let event = match form {
        SearchForm::SearchStore => "geosearchstore",
        _ => "georadiusstore",
    };
    stored::store(key, &members, event, view)
}

/// A search around a place.
fn around_place<'a>(args: &[&'a [u8]], form: SearchForm, view: &mut View<'a>) -> Answer {
    let zset = find(args[1], view)?;
    let center = Center::Given(place(args[2], args[3])?);
    let mut terms = SearchTerms::new(Some((center, circle(args[4], args[5])?)), None);
    terms.take(form, zset, &args[6..], view)?;
    search(args, zset, form, &terms, view)
}

/// A search around a member. Without a sorted set nothing of the area is looked at.
fn around_member<'a>(args: &[&'a [u8]], form: SearchForm, view: &mut View<'a>) -> Answer {
    let zset = find(args[1], view)?;
    let center = center(zset, args[2], view)?;
    let shape = match zset {
        Some(_) => circle(args[3], args[4])?,
        None => (Shape::Circle(0.0), 1.0),
    };
    let mut terms = SearchTerms::new(Some((center, shape)), None);
    terms.take(form, zset, &args[5..], view)?;
    search(args, zset, form, &terms, view)
}

/// `GEORADIUS key longitude latitude radius unit [WITHCOORD] [WITHDIST] [WITHHASH]
/// [COUNT count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]`
pub fn georadius<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    around_place(args, SearchForm::Radius, view)
}

/// `GEORADIUS_RO`, as [`georadius`] without `STORE` and `STOREDIST`.
pub fn georadius_ro<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    around_place(args, SearchForm::RadiusReadOnly, view)
}

/// `GEORADIUSBYMEMBER key member radius unit`, with the words of [`georadius`].
pub fn georadiusbymember<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    around_member(args, SearchForm::Radius, view)
}

/// `GEORADIUSBYMEMBER_RO`, as [`georadiusbymember`] without `STORE` and `STOREDIST`.
pub fn georadiusbymember_ro<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    around_member(args, SearchForm::RadiusReadOnly, view)
}

/// `GEOSEARCH key FROMMEMBER member | FROMLONLAT longitude latitude BYRADIUS radius unit | BYBOX
/// width height unit [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]`
pub fn geosearch<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let (zset, form) = (find(args[1], view)?, SearchForm::Search);
    let mut terms = SearchTerms::new(None, None);
    terms.take(form, zset, &args[2..], view)?;
    search(args, zset, form, &terms, view)
}

/// `GEOSEARCHSTORE to key`, with the words of [`geosearch`] but for those that show more, and
/// `[STOREDIST]`
pub fn geosearchstore<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let (zset, form) = (find(args[2], view)?, SearchForm::SearchStore);
    let mut terms = SearchTerms::new(None, Some(args[1]));
    terms.take(form, zset, &args[3..], view)?;
    search(args, zset, form, &terms, view)
}
