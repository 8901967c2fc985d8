//! GET and LIST, with paging over consistent snapshots.
//!
//! A continue token stands for a snapshot taken with the first page, as in etcd: pages of one listing
//! never mix revisions. Compaction, or too many newer listings, expires it; the 410 then offers a
//! second token that lists the rest *inconsistently*, which a careful client must not use (A01).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::super::json as j;
use super::super::objects::{Place, Store};
use super::super::selector::Selector;
use super::form::{Form, Partial};
use super::list_options;
use super::route::{Target, Verb};
use super::status::ApiError;

/// Listings whose later pages can still be read.
const SNAPSHOTS: usize = 64;

/// Snapshots behind continue tokens.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    next: u64,
    open: BTreeMap<u64, Snapshot>,
}

#[derive(Debug)]
struct Snapshot {
    revision: u64,
    objects: Arc<Vec<Arc<Value>>>,
}

/// What a token says: a snapshot and how far it was read, or a place to go on from inconsistently.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Snapshot {
        id: u64,
        offset: usize,
        after: (String, String),
    },
    Inconsistent {
        after: (String, String),
    },
}

impl Token {
    fn encode(&self) -> String {
        let text = match self {
            Self::Snapshot { id, offset, after } => format!("s/{id}/{offset}/{}/{}", after.0, after.1),
            Self::Inconsistent { after } => format!("i/0/0/{}/{}", after.0, after.1),
        };
        text.bytes().fold(String::new(), |mut hex, byte| {
            for digit in [byte >> 4, byte & 0xf] {
                hex.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
            }
            hex
        })
    }

    fn decode(hex: &str) -> Option<Self> {
        let bytes = (0..hex.len())
            .step_by(2)
            .map(|start| u8::from_str_radix(hex.get(start..start + 2)?, 16).ok())
            .collect::<Option<Vec<u8>>>()?;
        let text = String::from_utf8(bytes).ok()?;
        let mut parts = text.splitn(5, '/');
        let (kind, id, offset) = (parts.next()?, parts.next()?, parts.next()?);
        let after = (parts.next()?.to_owned(), parts.next()?.to_owned());
        match kind {
            "s" => Some(Self::Snapshot {
                id: id.parse().ok()?,
                offset: offset.parse().ok()?,
                after,
            }),
            "i" => Some(Self::Inconsistent { after }),
            _ => None,
        }
    }
}

impl Pages {
    /// Expires every continue token.
    pub(crate) fn compact(&mut self) {
        self.open.clear();
    }

    /// One page of a listing.
    pub(crate) fn list(&mut self, store: &Store, target: &Target) -> Result<Response<Bytes>, ApiError> {
        list_options::of_list(&target.query)?;
        target.form.fits(Verb::List, target.resource.kind().kind)?;
        let selector = target.query.selector()?;
        // resourceVersion=0 is served from the watch cache, which ignores the limit.
        let limit = match target.query.get("resourceVersion") {
            "0" => None,
            _ => target
                .query
                .number("limit")
                .and_then(|limit| usize::try_from(limit).ok())
                .filter(|limit| *limit > 0),
        };
        let (id, offset, revision, objects) = match target.query.get("continue") {
            "" => (
                None,
                0,
                store.revision(),
                Arc::new(select(store, target, &selector, None)),
            ),
            token => match Token::decode(token) {
                Some(Token::Inconsistent { after }) => (
                    None,
                    0,
                    store.revision(),
                    Arc::new(select(store, target, &selector, Some(&after))),
                ),
                Some(Token::Snapshot { id, offset, after }) => {
                    let Some(snapshot) = self.open.get(&id) else {
                        return Err(ApiError::Expired(
                            "You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results inconsistently.",
                            Some(Token::Inconsistent { after }.encode()),
                        ));
                    };
                    (Some(id), offset, snapshot.revision, Arc::clone(&snapshot.objects))
                }
                None => {
                    return Err(ApiError::BadRequest(
                        "continue key is not valid: malformed token".to_owned(),
                    ));
                }
            },
        };
        let rest = objects.get(offset..).unwrap_or_default();
        let page = rest.get(..limit.unwrap_or(rest.len())).unwrap_or(rest);
        let remaining = rest.len() - page.len();
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if remaining > 0 {
            let after = page
                .last()
                .map(|last| (j::namespace(last).to_owned(), j::name(last).to_owned()))
                .unwrap_or_default();
            let end = offset + page.len();
            let id = id.unwrap_or_else(|| self.keep(revision, &objects));
            let token = Token::Snapshot {
                id,
                offset: end,
                after,
            };
            metadata["continue"] = json!(token.encode());
            if selector.is_empty() {
                metadata["remainingItemCount"] = json!(remaining);
            }
        }
        Ok(render(target, &metadata, page))
    }

    fn keep(&mut self, revision: u64, objects: &Arc<Vec<Arc<Value>>>) -> u64 {
        self.next += 1;
        let snapshot = Snapshot {
            revision,
            objects: Arc::clone(objects),
        };
        self.open.insert(self.next, snapshot);
        while self.open.len() > SNAPSHOTS {
            self.open.pop_first();
        }
        self.next
    }
}

/// One object.
pub(crate) fn get(store: &Store, target: &Target) -> Result<Arc<Value>, ApiError> {
    let name = target.name.as_deref().unwrap_or_default();
    store
        .get(target.resource, &target.namespace, name)
        .cloned()
        .ok_or_else(|| ApiError::NotFound {
            resource: target.resource,
            name: name.to_owned(),
        })
}

/// Objects of a resource in the target's namespace that the selector picks.
pub(crate) fn select(
    store: &Store,
    target: &Target,
    selector: &Selector,
    after: Option<&(String, String)>,
) -> Vec<Arc<Value>> {
    let selected = |place: &Place, object: &Value| {
        (target.namespace.is_empty() || place.0 == target.namespace)
            && after.is_none_or(|after| place > after)
            && selector.matches(object)
    };
    let indexed = selector
        .equalities()
        .find_map(|(key, value)| store.labelled(target.resource, key, value));
    match indexed {
        Some(few) => few
            .into_iter()
            .filter(|(place, object)| selected(place, object))
            .map(|(_, object)| Arc::clone(object))
            .collect(),
        None => store
            .all(target.resource)
            .filter(|(place, object)| selected(place, object))
            .map(|(_, object)| Arc::clone(object))
            .collect(),
    }
}

/// A list item of a built-in kind: without `apiVersion` and `kind`, which only the list carries.
struct Bare<'a>(&'a Value);

impl Serialize for Bare<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(object) = self.0.as_object() else {
            return self.0.serialize(serializer);
        };
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in object {
            if key != "apiVersion" && key != "kind" {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct ListBody<'a, T> {
    kind: String,
    #[serde(rename = "apiVersion")]
    api_version: String,
    metadata: &'a Value,
    items: Vec<T>,
}

fn render(target: &Target, metadata: &Value, page: &[Arc<Value>]) -> Response<Bytes> {
    let kind = target.resource.kind();
    let (list, api_version) = (format!("{}List", kind.kind), kind.api_version());
    let body = if target.form == Form::MetadataList {
        let (list, api_version) = Partial::list();
        serde_json::to_vec(&ListBody {
            kind: list.to_owned(),
            api_version: api_version.to_owned(),
            metadata,
            items: page.iter().map(|item| Partial::of(item)).collect(),
        })
    } else if kind.custom {
        serde_json::to_vec(&ListBody {
            kind: list,
            api_version,
            metadata,
            items: page.iter().map(AsRef::as_ref).collect::<Vec<&Value>>(),
        })
    } else {
        serde_json::to_vec(&ListBody {
            kind: list,
            api_version,
            metadata,
            items: page.iter().map(|item| Bare(item)).collect(),
        })
    };
    // Values with text keys always serialize.
    let mut response = Response::new(Bytes::from(body.unwrap_or_default()));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
