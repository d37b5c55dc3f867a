//! The member agent's process.

use std::process::ExitCode;

fn main() -> ExitCode {
    match member_agent::options::Options::from_args(std::env::args_os()) {
        Ok(options) => member_agent::run::main(&options),
        Err(exit) => exit,
    }
}
