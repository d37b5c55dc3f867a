//! The log flags of agents written in Go, so that existing Deployments keep starting. `-v` is obeyed; files and headers
//! of log lines are a matter of whoever collects standard error, and those flags change nothing.

use std::ffi::OsString;

use clap::{ArgAction, Args};

use super::go_bool;

/// klog's flags.
#[derive(Args, Clone, Debug, Default)]
pub struct KlogArgs {
    /// How much to log: 0 warnings, 1 to 3 changes made, 4 and 5 also why nothing was done, 6 and more everything.
    #[arg(long = "v", short = 'v', value_name = "LEVEL", allow_negative_numbers = true)]
    pub verbosity: Option<i32>,

    #[arg(long, hide = true)]
    vmodule: Option<String>,
    #[arg(long = "log_dir", hide = true)]
    log_dir: Option<String>,
    #[arg(long = "log_file", hide = true)]
    log_file: Option<String>,
    #[arg(long = "log_file_max_size", hide = true)]
    log_file_max_size: Option<String>,
    #[arg(long = "log_backtrace_at", hide = true)]
    log_backtrace_at: Option<String>,
    #[arg(long, hide = true)]
    stderrthreshold: Option<String>,
    #[arg(long, hide = true, action = ArgAction::Set, value_parser = go_bool, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    logtostderr: Option<bool>,
    #[arg(long, hide = true, action = ArgAction::Set, value_parser = go_bool, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    alsologtostderr: Option<bool>,
    #[arg(long = "add_dir_header", hide = true, action = ArgAction::Set, value_parser = go_bool, num_args = 0..=1,
          require_equals = true, default_missing_value = "true")]
    add_dir_header: Option<bool>,
    #[arg(long = "skip_headers", hide = true, action = ArgAction::Set, value_parser = go_bool, num_args = 0..=1,
          require_equals = true, default_missing_value = "true")]
    skip_headers: Option<bool>,
    #[arg(long = "skip_log_headers", hide = true, action = ArgAction::Set, value_parser = go_bool, num_args = 0..=1,
          require_equals = true, default_missing_value = "true")]
    skip_log_headers: Option<bool>,
    #[arg(long = "one_output", hide = true, action = ArgAction::Set, value_parser = go_bool, num_args = 0..=1,
          require_equals = true, default_missing_value = "true")]
    one_output: Option<bool>,
}

impl KlogArgs {
    /// The level that `-v` stands for.
    pub fn level(&self) -> Option<&'static str> {
        self.verbosity.map(|v| match v {
            ..=0 => "warn",
            1..=3 => "info",
            4 | 5 => "debug",
            6.. => "trace",
        })
    }
}

/// Go takes `-flag` for `--flag`: gives long flags their second dash.
pub fn with_two_dashes(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    args.into_iter()
        .map(|arg| match arg.to_str() {
            Some(text)
                if text.starts_with('-')
                    && !text.starts_with("--")
                    && text[1..].starts_with(|c: char| c.is_ascii_alphabetic())
                    // `-v5` and `-v=5` are what they look like.
                    && !text.starts_with("-v=")
                    && text[2..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '-') =>
            {
                format!("-{text}").into()
            }
            _ => arg,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dash_becomes_two_where_go_would_take_it() {
        let table = [
            ("-add_dir_header", "--add_dir_header"),
            ("-kubeconfig=/a", "--kubeconfig=/a"),
            ("--v=5", "--v=5"),
            ("-v=5", "-v=5"),
            ("-v5", "-v5"),
            ("-v", "-v"),
            ("-5", "-5"),
            ("-", "-"),
            ("plain", "plain"),
        ];
        for (given, wanted) in table {
            assert_eq!(with_two_dashes([given.into()]), [OsString::from(wanted)], "{given}");
        }
    }
}
