//! The API server's face: one whole request in, one whole answer out.
//!
//! Counts the request, lets an injected fault strike, then routes it. Writes go to the store and
//! nowhere else; controllers see them at their next step.

pub mod route;

mod discovery;
mod form;
mod json_patch;
mod list_options;
pub(crate) mod read;
mod schema;
mod seats;
pub(crate) mod status;
pub(crate) mod validate;
pub(crate) mod watch;
mod write;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::json;

use self::form::{Form, Partial};
use self::route::{Route, Subresource, Target, Verb};
use self::status::{ApiError, answer};
use self::watch::WatchCursor;
use super::KubeSim;
use super::faults::{self, Fault, NoAnswer};
use super::json as j;
use super::objects::Deleted;
use super::request_log::{
    Account, Cost, Destruction, Destructive, Made, bytes_of_request, bytes_of_response,
};
use super::resource::Resource;

/// Header by which a client of the simulation says who it is; the User-Agent otherwise.
pub const ACTOR_HEADER: &str = "x-sim-actor";

impl KubeSim {
    /// Answers one request. A watch is answered with what is due now and then ends; faces that stream
    /// use [`KubeSim::open_watch`]. An answer marked [`super::NoAnswer`] must never be delivered, one marked
    /// [`super::AnswerDue`] not before its time.
    pub fn handle(&mut self, request: &Request<Bytes>, now: Timestamp) -> Response<Bytes> {
        let target = match route::route(request) {
            Ok(Route::Discovery(path)) => {
                return discovery::discover(&path, |resource| !self.unserved.contains(&resource))
                    .unwrap_or_else(|error| error.response());
            }
            Ok(Route::Resource(target)) => target,
            Err(error) => return error.response(),
        };
        let actor = actor(request);
        let account = self.log.count(&actor, target.verb, &target.label());
        let seats = seats::estimate(&target, self.store.count(target.resource));
        let fault = self.faults.hit(&target);
        let response = self.answer(&actor, &target, fault.as_ref(), request, now);
        self.account(&account, &target, seats, request, &response, now);
        response
    }

    fn answer(
        &mut self,
        actor: &str,
        target: &Target,
        fault: Option<&Fault>,
        request: &Request<Bytes>,
        now: Timestamp,
    ) -> Response<Bytes> {
        if let Some(instead) = fault.and_then(|fault| faults::instead(fault, target)) {
            self.note_destruction(actor, target, request.body(), instead.status(), now);
            return instead;
        }
        let response = self
            .serve(target, request, now)
            .unwrap_or_else(|error| error.response());
        self.note_destruction(actor, target, request.body(), response.status(), now);
        self.note_creation(actor, target, &response, now);
        match fault {
            Some(Fault::LoseAnswer) => faults::unanswered(response),
            Some(Fault::Late(delay)) => faults::late(response, now, *delay),
            Some(_) | None => response,
        }
    }

    /// Writes down what a request and its answer came to. An answer that never arrives has no bytes.
    fn account(
        &mut self,
        account: &Account,
        target: &Target,
        seats: u64,
        request: &Request<Bytes>,
        response: &Response<Bytes>,
        now: Timestamp,
    ) {
        let cost = Cost {
            requests: 1,
            bytes_in: bytes_of_request(request, request.body().len()),
            bytes_out: match response.extensions().get::<NoAnswer>() {
                Some(NoAnswer) => 0,
                None => bytes_of_response(response, response.body().len()),
            },
            seats,
        };
        let (name, code) = (target.name.as_deref(), response.status().as_u16());
        self.log.answered(account, name, cost, code, now);
    }

    /// Opens a watch, or says why not. `None` when the request is no watch at all.
    pub fn open_watch(
        &mut self,
        request: &Request<Bytes>,
        now: Timestamp,
    ) -> Option<Result<WatchCursor, Response<Bytes>>> {
        let Ok(Route::Resource(target)) = route::route(request) else {
            return None;
        };
        if target.verb != Verb::Watch {
            return None;
        }
        let account = self.log.count(&actor(request), target.verb, &target.label());
        let seats = seats::estimate(&target, self.store.count(target.resource));
        let opened = self.try_open(&target, account.clone(), now);
        let opened = opened.map_err(|refused| *refused);
        let head = match &opened {
            Ok(_) => streaming(Bytes::new()),
            Err(refused) => refused.clone(),
        };
        self.account(&account, &target, seats, request, &head, now);
        Some(opened)
    }

    fn try_open(
        &mut self,
        target: &Target,
        account: Account,
        now: Timestamp,
    ) -> Result<WatchCursor, Box<Response<Bytes>>> {
        if let Some(fault) = self.faults.hit(target)
            && !matches!(fault, Fault::Late(_))
        {
            let lost = || faults::unanswered(Response::new(Bytes::new()));
            return Err(Box::new(faults::instead(&fault, target).unwrap_or_else(lost)));
        }
        if self.unserved.contains(&target.resource) {
            return Err(Box::new(ApiError::NotServed.response()));
        }
        let generation = self.watch_generation;
        let cursor = WatchCursor::open(&self.store, target.clone(), now, &self.options, generation);
        let mut cursor = cursor.map_err(|error| Box::new(error.response()))?;
        cursor.account = Some(account);
        Ok(cursor)
    }

    /// Lines a watch is owed now; look at [`WatchCursor::ended`] afterwards.
    pub fn poll_watch(&mut self, cursor: &mut WatchCursor, now: Timestamp) -> Vec<Bytes> {
        if cursor.generation != self.watch_generation {
            cursor.cut();
        }
        let lines = cursor.poll(&self.store, now, self.options.bookmark_interval);
        if !lines.is_empty()
            && let Some(account) = &cursor.account
        {
            let bytes: usize = lines.iter().map(Bytes::len).sum();
            self.log
                .streamed(account, u64::try_from(bytes).unwrap_or(u64::MAX));
        }
        lines
    }

    fn serve(
        &mut self,
        target: &Target,
        request: &Request<Bytes>,
        now: Timestamp,
    ) -> Result<Response<Bytes>, ApiError> {
        if self.unserved.contains(&target.resource) {
            return Err(ApiError::NotServed);
        }
        if target.verb.writes() && target.query.get("dryRun") == "All" {
            let saved = self.store.clone();
            let outcome = self.serve_write(target, request, now);
            self.store = saved;
            return outcome;
        }
        match target.verb {
            Verb::Get => {
                let store = self.stale.as_ref().unwrap_or(&self.store);
                target.form.fits(Verb::Get, target.resource.kind().kind)?;
                let object = read::get(store, target)?;
                Ok(match target.form {
                    Form::Metadata => answer(StatusCode::OK, &json!(Partial::of(&object))),
                    Form::Whole | Form::MetadataList => answer(StatusCode::OK, &object),
                })
            }
            Verb::List => {
                let store = self.stale.as_ref().unwrap_or(&self.store);
                self.pages.list(store, target)
            }
            Verb::Watch => {
                let generation = self.watch_generation;
                let mut cursor =
                    WatchCursor::open(&self.store, target.clone(), now, &self.options, generation)?;
                let lines = cursor.poll(&self.store, now, self.options.bookmark_interval);
                Ok(streaming(Bytes::from(lines.concat())))
            }
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {
                self.serve_write(target, request, now)
            }
        }
    }

    fn serve_write(
        &mut self,
        target: &Target,
        request: &Request<Bytes>,
        now: Timestamp,
    ) -> Result<Response<Bytes>, ApiError> {
        let body = request.body();
        match target.verb {
            Verb::Get | Verb::List | Verb::Watch => Err(ApiError::MethodNotAllowed),
            Verb::Create if target.subresource == Some(Subresource::Eviction) => self.evict(target, now),
            Verb::Create => {
                let object = write::create(&mut self.store, target, body, now, &mut self.rng)?;
                Ok(answer(StatusCode::CREATED, &object))
            }
            Verb::Update if write::makes_anew(&self.store, target) => {
                let object = write::create_by_update(&mut self.store, target, body, now, &mut self.rng)?;
                Ok(answer(StatusCode::CREATED, &object))
            }
            Verb::Update => Ok(answer(
                StatusCode::OK,
                &*write::update(&mut self.store, target, body)?,
            )),
            Verb::Patch => {
                let content_type = request
                    .headers()
                    .get(header::CONTENT_TYPE)
                    .and_then(|value| value.to_str().ok())
                    .unwrap_or_default();
                Ok(answer(
                    StatusCode::OK,
                    &*write::patch(&mut self.store, target, content_type, body)?,
                ))
            }
            Verb::Delete => Ok(match write::delete(&mut self.store, target, body, now)? {
                Deleted::Gone(object) => answer(
                    StatusCode::OK,
                    &status::deleted(target.resource, j::name(&object), j::uid(&object)),
                ),
                Deleted::Pending(object) => answer(StatusCode::OK, &object),
            }),
        }
    }

    /// The eviction API; there are no PodDisruptionBudgets here, so it is always granted.
    fn evict(&mut self, target: &Target, now: Timestamp) -> Result<Response<Bytes>, ApiError> {
        let pod = read::get(&self.store, target)?;
        super::turn::evict_pod(&mut self.store, &pod, now);
        Ok(answer(
            StatusCode::CREATED,
            &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
        ))
    }

    fn note_creation(&mut self, actor: &str, target: &Target, response: &Response<Bytes>, now: Timestamp) {
        let workload = matches!(
            target.resource,
            Resource::Deployments | Resource::Services | Resource::ConfigMaps
        );
        if target.verb != Verb::Create || !workload || response.status() != StatusCode::CREATED {
            return;
        }
        let object = serde_json::from_slice::<serde_json::Value>(response.body());
        self.log.made(Made {
            at: now,
            actor: actor.to_owned(),
            resource: target.resource,
            name: object
                .map(|object| j::name(&object).to_owned())
                .unwrap_or_default(),
        });
    }

    fn note_destruction(
        &mut self,
        actor: &str,
        target: &Target,
        body: &Bytes,
        code: StatusCode,
        now: Timestamp,
    ) {
        let how = match (target.verb, target.subresource) {
            (Verb::Delete, _) => Destruction::Delete,
            (Verb::Create, Some(Subresource::Eviction)) => Destruction::Evict,
            (Verb::Get | Verb::List | Verb::Watch | Verb::Create | Verb::Update | Verb::Patch, _) => return,
        };
        self.log.destroyed(Destructive {
            at: now,
            actor: actor.to_owned(),
            how,
            resource: target.resource,
            namespace: target.namespace.clone(),
            name: target.name.clone().unwrap_or_default(),
            uid: serde_json::from_slice::<serde_json::Value>(body)
                .ok()
                .and_then(|options| j::text(&options, &["preconditions", "uid"]).map(str::to_owned)),
            code: code.as_u16(),
            requested: true,
        });
    }
}

/// The answer to a watch.
pub(crate) fn streaming<B>(body: B) -> Response<B> {
    let mut response = Response::new(body);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    response
}

fn actor<B>(request: &Request<B>) -> String {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    header(ACTOR_HEADER)
        .or_else(|| header("user-agent"))
        .unwrap_or("unknown")
        .to_owned()
}

/// Every resource of a group is served or not together, as one CustomResourceDefinition bundle is.
#[must_use]
pub fn resources_of(group: &str) -> Vec<Resource> {
    Resource::ALL
        .into_iter()
        .filter(|resource| resource.kind().group == group)
        .collect()
}
