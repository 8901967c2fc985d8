use super::*;
use crate::pool::ids::{Namespace, ObjectName};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn settings() -> LeaseSettings {
    LeaseSettings {
        elect: true,
        namespace: Namespace::new("ops"),
        name: ObjectName::new("lease"),
        ..LeaseSettings::default()
    }
}

fn lease(holder: Option<&str>, version: &str, renewed: &str) -> LeaseFacts {
    LeaseFacts {
        resource_version: ResourceVersion::new(version),
        holder: holder.map(str::to_owned),
        duration: s(15),
        renewed_at: renewed.parse().ok(),
        transitions: 4,
    }
}

fn wall() -> Timestamp {
    "2031-01-01T00:00:00Z".parse().unwrap()
}

#[test]
fn r06_a_challenger_times_an_unchanged_lease_on_its_own_clock_whatever_the_timestamp_says() {
    let mut machine = LeaseMachine::new("b", settings());
    // The holder's wall clock is a year behind ours: by timestamps the Lease expired long ago.
    let held = lease(Some("a"), "7", "2030-01-01T00:00:00Z");
    assert_eq!(
        machine.read(Lookup::Found(held.clone()), s(100), wall()),
        Intent::Wait
    );
    assert_eq!(
        machine.read(Lookup::Found(held.clone()), s(114), wall()),
        Intent::Wait
    );
    let Intent::Put { expected, lease } = machine.read(Lookup::Found(held), s(115), wall()) else {
        panic!("an unchanged Lease was waited for beyond its duration");
    };
    assert_eq!(expected, Some(ResourceVersion::new("7")));
    assert_eq!(lease.holder.as_deref(), Some("b"));
    assert_eq!(lease.transitions, 5);
}

#[test]
fn r06_any_renewal_starts_the_wait_anew_even_with_the_same_timestamp() {
    let mut machine = LeaseMachine::new("b", settings());
    let first = lease(Some("a"), "7", "2031-01-01T00:00:00Z");
    let second = lease(Some("a"), "8", "2031-01-01T00:00:00Z");
    machine.read(Lookup::Found(first), s(0), wall());
    assert_eq!(
        machine.read(Lookup::Found(second.clone()), s(14), wall()),
        Intent::Wait
    );
    assert_eq!(
        machine.read(Lookup::Found(second.clone()), s(28), wall()),
        Intent::Wait
    );
    assert!(matches!(
        machine.read(Lookup::Found(second), s(29), wall()),
        Intent::Put { .. }
    ));
}

#[test]
fn r06_the_term_is_counted_from_before_the_send() {
    let mut machine = LeaseMachine::new("a", settings());
    machine.read(Lookup::Absent, s(0), wall());
    // The answer took eight seconds.
    machine.wrote(s(1), &Ok(Written::Applied));
    assert!(machine.holds(s(10)));
    assert!(!machine.holds(s(11)));
}

#[test]
fn r06_failed_heartbeats_count_down_and_the_holder_stops_before_a_challenger_may_start() {
    let mut holder = LeaseMachine::new("a", settings());
    let mut challenger = LeaseMachine::new("b", settings());
    holder.read(Lookup::Absent, s(0), wall());
    holder.wrote(s(0), &Ok(Written::Applied));
    let held = lease(Some("a"), "1", "2031-01-01T00:00:00Z");
    challenger.read(Lookup::Found(held.clone()), s(0), wall());
    for t in (2..15).step_by(2) {
        holder.wrote(s(t), &Err(ClusterError::Server("etcd".into())));
        let takes_over = matches!(
            challenger.read(Lookup::Found(held.clone()), s(t), wall()),
            Intent::Put { .. }
        );
        assert!(!(takes_over && holder.holds(s(t))));
    }
    assert!(!holder.holds(s(14)));
}

#[test]
fn a_lease_written_by_somebody_else_ends_the_term_at_once() {
    let mut machine = LeaseMachine::new("a", settings());
    machine.read(Lookup::Absent, s(0), wall());
    machine.wrote(s(0), &Ok(Written::Applied));
    machine.read(
        Lookup::Found(lease(Some("b"), "2", "2031-01-01T00:00:00Z")),
        s(1),
        wall(),
    );
    assert!(!machine.holds(s(1)));
}

#[test]
fn a_conflict_is_no_renewal() {
    let mut machine = LeaseMachine::new("a", settings());
    machine.wrote(s(0), &Ok(Written::Conflict("moved on".into())));
    assert!(!machine.holds(s(0)));
}

#[test]
fn a_released_lease_is_taken_at_once_but_not_by_the_one_who_sits_out() {
    let released = lease(None, "9", "2031-01-01T00:00:00Z");
    let mut other = LeaseMachine::new("b", settings());
    assert!(matches!(
        other.read(Lookup::Found(released.clone()), s(3), wall()),
        Intent::Put { .. }
    ));

    let mut machine = LeaseMachine::new("a", settings());
    machine.read(
        Lookup::Found(lease(Some("a"), "8", "2031-01-01T00:00:00Z")),
        s(0),
        wall(),
    );
    machine.wrote(s(0), &Ok(Written::Applied));
    machine.release(s(3), true);
    assert!(!machine.holds(s(3)));
    assert_eq!(
        machine.read(Lookup::Found(released.clone()), s(17), wall()),
        Intent::Wait
    );
    assert!(matches!(
        machine.read(Lookup::Found(released), s(18), wall()),
        Intent::Put { .. }
    ));
}

#[test]
fn only_its_own_lease_is_handed_over() {
    let machine = LeaseMachine::new("a", settings());
    let ours = lease(Some("a"), "9", "2031-01-01T00:00:00Z");
    let Some(Intent::Put {
        expected,
        lease: written,
    }) = machine.handing_over(&ours)
    else {
        panic!("the own Lease is handed over");
    };
    assert_eq!(
        (expected, written.holder),
        (Some(ResourceVersion::new("9")), None)
    );
    assert_eq!(
        machine.handing_over(&lease(Some("b"), "9", "2031-01-01T00:00:00Z")),
        None
    );
}
