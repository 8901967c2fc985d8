//! The form in which a client wants objects, by its Accept header: whole, or their metadata alone.
//!
//! One object is asked for `as=PartialObjectMetadata`, a list `as=PartialObjectMetadataList`; the other way round
//! is 406 (apiserver's pkg/endpoints/handlers/response.go). Answers to writes are always whole here.

use serde::Serialize;
use serde_json::Value;

use super::super::json as j;
use super::route::Verb;
use super::status::ApiError;

/// Group and version of the metadata forms.
const META: &str = "meta.k8s.io/v1";

/// What a client accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// Whole objects.
    #[default]
    Whole,
    /// The metadata of one object.
    Metadata,
    /// The metadata of each object of a list.
    MetadataList,
}

impl Form {
    /// The first form of the header that is known here; whole objects when there is none.
    pub(crate) fn of(accept: &str) -> Self {
        accept.split(',').find_map(Self::of_range).unwrap_or_default()
    }

    fn of_range(range: &str) -> Option<Self> {
        let mut words = range.split(';').map(str::trim);
        let media = words.next().unwrap_or_default();
        let parameters: Vec<(&str, &str)> = words.filter_map(|word| word.split_once('=')).collect();
        let parameter = |key: &str| {
            let found = parameters.iter().find(|(name, _)| *name == key);
            found.map_or("", |(_, value)| *value)
        };
        match (parameter("as"), parameter("g"), parameter("v")) {
            ("", ..) if matches!(media, "application/json" | "application/*" | "*/*") => Some(Self::Whole),
            ("PartialObjectMetadata", "meta.k8s.io", "v1") => Some(Self::Metadata),
            ("PartialObjectMetadataList", "meta.k8s.io", "v1") => Some(Self::MetadataList),
            _ => None,
        }
    }

    /// Refuses a form that the answer to this verb cannot have.
    pub(crate) fn fits(self, verb: Verb, kind: &str) -> Result<(), ApiError> {
        match (self, verb) {
            (Self::Metadata, Verb::List) => Err(ApiError::NotAcceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({kind}List)"
            ))),
            (Self::MetadataList, Verb::Get | Verb::Watch) => Err(ApiError::NotAcceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({kind})"
            ))),
            (Self::Whole | Self::Metadata | Self::MetadataList, _) => Ok(()),
        }
    }
}

/// An object's metadata alone.
#[derive(Serialize)]
pub(crate) struct Partial<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: Option<&'a Value>,
}

impl<'a> Partial<'a> {
    pub(crate) fn of(object: &'a Value) -> Self {
        Self {
            kind: "PartialObjectMetadata",
            api_version: META,
            metadata: j::at(object, &["metadata"]),
        }
    }

    /// Kind and apiVersion of a list of these.
    pub(crate) const fn list() -> (&'static str, &'static str) {
        ("PartialObjectMetadataList", META)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_form_of_the_header_counts() {
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        for (accept, expected) in [
            ("", Form::Whole),
            ("application/json", Form::Whole),
            (metadata, Form::Metadata),
            (&format!("{metadata},application/json"), Form::Metadata),
            (&format!("application/json,{metadata}"), Form::Whole),
            (
                "application/json; as=PartialObjectMetadataList; g=meta.k8s.io; v=v1",
                Form::MetadataList,
            ),
            (
                "application/json;as=Table;g=meta.k8s.io;v=v1,application/json",
                Form::Whole,
            ),
            (
                &format!("application/json;as=Table;g=meta.k8s.io;v=v1,{metadata}"),
                Form::Metadata,
            ),
        ] {
            assert_eq!(Form::of(accept), expected, "{accept}");
        }
    }
}
