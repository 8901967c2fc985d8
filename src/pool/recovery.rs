//! An authorized recovery: a person declared an exact process lost.
