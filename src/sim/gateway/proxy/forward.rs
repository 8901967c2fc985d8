//! What changes on a request and an answer as they pass through: headers only.

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, FORWARDED, HOST, HeaderName, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE, VIA,
};
use http::{HeaderMap, HeaderValue, Request, Response};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The request as a member receives it: the path and query alone, and where the client believes to be.
/// `X-Forwarded-Host` carries the port as well, so that a reader of either header finds it.
pub(super) fn request(received: &Request<Bytes>) -> Request<Bytes> {
    let mut sent = Request::new(received.body().clone());
    *sent.method_mut() = received.method().clone();
    let path = received.uri().path_and_query().map_or("/", |path| path.as_str());
    if let Ok(uri) = path.parse() {
        *sent.uri_mut() = uri;
    }
    let mut headers = received.headers().clone();
    hop_by_hop(&mut headers);
    let host = headers
        .remove(HOST)
        .or_else(|| HeaderValue::from_str(received.uri().authority()?.as_str()).ok());
    for name in [
        ACCEPT_ENCODING,
        FORWARDED,
        FORWARDED_FOR,
        FORWARDED_PROTO,
        FORWARDED_PORT,
        FORWARDED_HOST,
        HeaderName::from_static("x-trino-query-data-encoding"),
    ] {
        headers.remove(name);
    }
    headers.insert(VIA, HeaderValue::from_static("1.1 gateway"));
    headers.insert(FORWARDED_FOR, HeaderValue::from_static("127.0.0.1"));
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static("http"));
    if let Some(host) = host {
        let port = host
            .to_str()
            .ok()
            .and_then(|host| host.parse::<http::uri::Authority>().ok())
            .and_then(|authority| authority.port_u16())
            .unwrap_or(80);
        headers.insert(FORWARDED_PORT, HeaderValue::from(port));
        headers.insert(FORWARDED_HOST, host);
    }
    *sent.headers_mut() = headers;
    sent
}

/// The answer as the client receives it.
pub(super) fn response(mut answer: Response<Bytes>) -> Response<Bytes> {
    hop_by_hop(answer.headers_mut());
    answer
}

fn hop_by_hop(headers: &mut HeaderMap) {
    for name in [
        CONNECTION,
        CONTENT_LENGTH,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ] {
        headers.remove(name);
    }
}
