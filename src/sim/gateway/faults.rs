//! What may go wrong between a sender and the simulated gateway.
//!
//! Owns the plan of faults; decides for each request whether it arrives and whether its answer returns.
//! Knows nothing of the protocol: requests are matched by method and by the end of their path.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};

/// What the sender of a request sees.
#[derive(Debug)]
pub enum Reply {
    /// The answer, to be delivered this much later.
    Answer {
        /// The answer.
        response: Response<Bytes>,
        /// Of the host's time.
        after: Duration,
    },
    /// No answer: the connection breaks. Whether the request was applied is not told.
    Silence,
}

/// Whether the gateway is there at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outage {
    /// It is there.
    #[default]
    None,
    /// No request is answered, none is applied.
    Silent,
    /// Every request is answered with 503 and not applied.
    Unavailable,
}

/// Which requests an outage or a delay concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Only `/gateway/…`: statements still flow.
    #[default]
    Control,
    /// Everything.
    Everything,
}

/// Where one request or its answer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It never arrives.
    Request,
    /// It is applied, then its answer is lost.
    Response,
    /// The same, and no read of a member of that pool arrives any more, until
    /// [`Faults::read_members_again`]. The pool itself is still read.
    ResponseAndReads,
}

/// The faults in force.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Outage in force.
    pub outage: Outage,
    /// What it concerns.
    pub outage_scope: Scope,
    /// Every answer takes this much longer.
    pub delay: Duration,
    losses: Vec<(Loss, Method, String)>,
    /// Beginnings of paths that no GET reaches.
    unread: Vec<String>,
}

impl Faults {
    /// Loses the next request of `method` whose path ends in `path_end`, such as `/admit`. Several calls
    /// add up.
    pub fn lose_next(&mut self, loss: Loss, method: Method, path_end: impl Into<String>) {
        self.losses.push((loss, method, path_end.into()));
    }

    /// Losses that have not happened yet.
    #[must_use]
    pub const fn pending_losses(&self) -> usize {
        self.losses.len()
    }

    /// Lets reads of members arrive again.
    pub fn read_members_again(&mut self) {
        self.unread.clear();
    }

    pub(super) fn plan(&mut self, request: &Request<Bytes>) -> Plan {
        let path = request.uri().path();
        let concerned = match self.outage_scope {
            Scope::Everything => true,
            Scope::Control => path.starts_with("/gateway/"),
        };
        let outage = if concerned { self.outage } else { Outage::None };
        let unread = request.method() == Method::GET
            && self.unread.iter().any(|begin| path.starts_with(begin.as_str()));
        let hit = self
            .losses
            .iter()
            .position(|(_, method, end)| method == request.method() && path.ends_with(end.as_str()));
        match outage {
            Outage::Silent => Plan::NeverArrives,
            Outage::Unavailable => Plan::Unavailable(self.delay),
            Outage::None if unread => Plan::NeverArrives,
            Outage::None => match hit.map(|index| self.losses.remove(index).0) {
                Some(Loss::Request) => Plan::NeverArrives,
                Some(Loss::Response) => Plan::AnswerLost,
                Some(Loss::ResponseAndReads) => {
                    self.unread.push(members_of(path));
                    Plan::AnswerLost
                }
                None => Plan::Deliver(self.delay),
            },
        }
    }
}

/// What the paths of all members of the pool begin with, of the path of a step of one of them.
fn members_of(path: &str) -> String {
    const MEMBERS: &str = "/members";
    let end = path.find(MEMBERS).map_or(path.len(), |at| at + MEMBERS.len());
    path.get(..end).unwrap_or(path).to_owned()
}

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Deliver(Duration),
    AnswerLost,
    NeverArrives,
    Unavailable(Duration),
}

impl Plan {
    pub(super) fn carry_out(self, handle: impl FnOnce() -> Response<Bytes>) -> Reply {
        match self {
            Self::Deliver(after) => Reply::Answer {
                response: handle(),
                after,
            },
            Self::AnswerLost => {
                let _lost = handle();
                Reply::Silence
            }
            Self::NeverArrives => Reply::Silence,
            Self::Unavailable(after) => {
                let mut response = Response::new(Bytes::from_static(b"the gateway is unavailable"));
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                Reply::Answer { response, after }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(path: &str) -> Request<Bytes> {
        Request::post(path).body(Bytes::new()).unwrap()
    }

    #[test]
    fn a_loss_happens_once_and_to_the_request_it_names() {
        let mut faults = Faults::default();
        faults.lose_next(Loss::Response, Method::POST, "/admit");
        assert_eq!(
            faults.plan(&post("/gateway/x/drain")),
            Plan::Deliver(Duration::ZERO)
        );
        assert_eq!(faults.plan(&post("/gateway/x/admit")), Plan::AnswerLost);
        assert_eq!(
            faults.plan(&post("/gateway/x/admit")),
            Plan::Deliver(Duration::ZERO)
        );
    }

    #[test]
    fn members_of_one_pool_cannot_be_read_after_a_lost_answer_until_they_can_again() {
        let get = |path: &str| Request::get(path).body(Bytes::new()).unwrap();
        let pass = Plan::Deliver(Duration::ZERO);
        let mut faults = Faults::default();
        faults.lose_next(Loss::ResponseAndReads, Method::POST, "/drain");
        let member = get("/gateway/v1/pools/a/members/x");
        assert_eq!(faults.plan(&member), pass);
        let drain = post("/gateway/v1/pools/a/members/x/drain");
        assert_eq!(faults.plan(&drain), Plan::AnswerLost);
        for unread in [
            &member,
            &get("/gateway/v1/pools/a/members"),
            &get("/gateway/v1/pools/a/members/y/obligations"),
        ] {
            assert_eq!(faults.plan(unread), Plan::NeverArrives);
        }
        for read in [
            &drain,
            &get("/gateway/v1/pools/a"),
            &get("/gateway/v1/pools/b/members/x"),
        ] {
            assert_eq!(faults.plan(read), pass);
        }
        faults.read_members_again();
        assert_eq!(faults.plan(&member), pass);
    }

    #[test]
    fn an_outage_of_the_control_plane_lets_statements_flow() {
        let mut faults = Faults {
            outage: Outage::Silent,
            ..Faults::default()
        };
        assert_eq!(faults.plan(&post("/gateway/v1/pools/a")), Plan::NeverArrives);
        assert_eq!(faults.plan(&post("/v1/statement")), Plan::Deliver(Duration::ZERO));
        faults.outage_scope = Scope::Everything;
        assert_eq!(faults.plan(&post("/v1/statement")), Plan::NeverArrives);
    }
}
