//! The one binary; everything it does lives in the library's `cli` module.

fn main() -> std::process::ExitCode {
    trino_pool_operator::cli::main()
}
