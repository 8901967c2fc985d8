//! Standard output and standard error for people and scripts.
//!
//! `println!` panics when the reader has gone away (`… | head`). Nothing here does: whoever does not read any
//! more is simply told nothing more.

use std::io::Write;

/// One line on standard output. `false` when nobody reads it any more.
pub fn line(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
}

/// One line on standard error, in front of which the program's name stands.
pub fn complain(text: &str) {
    // Where even standard error is gone, the exit status must do.
    let _ = writeln!(
        std::io::stderr().lock(),
        "trino-pool-operator: {}",
        one_line(text)
    );
}

/// One line on standard error, as it is: progress beside the output proper.
pub fn note(text: &str) {
    // Nobody needs it.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The same words on one line.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The same words in lines of at most `width` characters, each after `indent` spaces.
#[must_use]
pub fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let room = width.saturating_sub(indent).max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let margin = " ".repeat(indent);
    let lines: Vec<String> = lines.into_iter().map(|line| format!("{margin}{line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_between_words_only() {
        assert_eq!(
            wrapped("one two three incomprehensible", 9, 2),
            "  one two\n  three\n  incomprehensible"
        );
        assert_eq!(wrapped("", 9, 2), "");
    }

    #[test]
    fn an_error_of_many_lines_is_said_in_one() {
        assert_eq!(one_line("a\n  b\tc \n"), "a b c");
    }
}
