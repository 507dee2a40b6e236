//! The value of a key: its begin, in few bytes, however large it is.

use std::ops::ControlFlow;

use bytes::Bytes;
use serde_json::{Value, json};

use super::bytes::ShownBytes;
use crate::exec::{Answer, ElementRange, View};
use crate::model::element::{self, MEMBERS, SCORES};
use crate::model::record::{Collection, CollectionKind, KeyContent, KeyRecord};
use crate::model::stream::{self, StreamId};
use crate::resp::reply::double;

/// Most elements, parts of an element, and bytes of a string and of such a part that are shown.
const ELEMENTS_MAX: usize = 100;
const CELLS_MAX: usize = 20;
const STRING_MAX: usize = 64 << 10;
const CELL_MAX: usize = 1 << 10;

/// Bytes of elements behind which no other one is read.
const READ_MAX: usize = 16 << 20;

/// What the page shows of a key: its type, its deadline and the begin of its value.
pub(super) fn shown(view: &View<'_>, key: &[u8]) -> Answer<Value> {
    let Some(KeyRecord { content, until }) = view.record(key)? else {
        return Ok(json!({ "type": "none" }));
    };
    let kind = content.type_name();
    let millis_left = until.map(|until| until.saturating_sub(view.now));
    Ok(match content {
        KeyContent::String(value) => json!({
            "type": kind,
            "millis_left": millis_left,
            "len": value.len(),
            "value": ShownBytes::begin(&value, STRING_MAX),
        }),
        KeyContent::Collection(collection) => json!({
            "type": kind,
            "millis_left": millis_left,
            "len": collection.len,
            "rows": rows(view, &collection)?,
        }),
    })
}

/// The first elements, each as the parts that it has.
fn rows(view: &View<'_>, of: &Collection) -> Answer<Vec<Vec<Value>>> {
    let (mut rows, mut read) = (Vec::new(), 0);
    let part = if of.kind == CollectionKind::SortedSet { SCORES } else { MEMBERS };
    let within = ElementRange { part, ..ElementRange::ALL };
    view.elements(of.id, within, &mut |name, value| {
        let cells = cells(of.kind, rows.len(), name, value);
        rows.push(cells.unwrap_or_else(|| vec![json!("a damaged element: see cleave check")]));
        read += name.len() + value.len();
        match rows.len() < ELEMENTS_MAX && read < READ_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    Ok(rows)
}

/// The parts of the element at a place; none if it is damaged.
fn cells(kind: CollectionKind, place: usize, name: &[u8], value: &[u8]) -> Option<Vec<Value>> {
    Some(match kind {
        CollectionKind::Hash => vec![cell(name), cell(value)],
        CollectionKind::Set => vec![cell(name)],
        CollectionKind::SortedSet => {
            let (score, member) = element::scored(name)?;
            vec![cell(member), json!(double(score))]
        }
        CollectionKind::List => vec![json!(place), cell(value)],
        CollectionKind::Stream => {
            let id = json!(StreamId::of_bytes(name)?.to_string());
            let fields = stream::fields(Bytes::copy_from_slice(value))?;
            let fields = fields.iter().take(CELLS_MAX).map(|field| cell(field));
            std::iter::once(id).chain(fields).collect()
        }
    })
}

/// A part of an element; of a long one its begin, and how much is left out.
fn cell(bytes: &[u8]) -> Value {
    match bytes.len().checked_sub(CELL_MAX) {
        Some(more @ 1..) => {
            let begin = String::from_utf8_lossy(&bytes[..CELL_MAX]);
            json!(format!("{begin}... ({more} more bytes)"))
        }
        _ => json!(ShownBytes::begin(bytes, CELL_MAX)),
    }
}
