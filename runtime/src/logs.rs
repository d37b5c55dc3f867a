//! Logs, and how errors are printed in them.

use std::{error::Error, fmt};

use tracing_subscriber::{EnvFilter, fmt::format::FmtSpan};

use crate::options::{LogArgs, LogFormat};

/// Starts logging to stderr. A second call changes nothing, so that tests can start several agents in one process.
///
/// # Errors
/// If the filter cannot be understood.
pub fn init(args: &LogArgs) -> Result<(), tracing_subscriber::filter::ParseError> {
    let filter = EnvFilter::builder().parse(args.filter())?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::NONE)
        .with_writer(std::io::stderr);
    let started = match args.log_format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(true).try_init(),
    };
    // The only error is that somebody else was first.
    drop(started);
    Ok(())
}

/// Prints an error and its sources, leaving out what was said already: kube's errors repeat their sources, ours do not.
///
/// ```
/// # use fleet_runtime::logs;
/// let error = std::io::Error::other("disk full");
/// assert_eq!(logs::chain(&error).to_string(), "disk full");
/// ```
pub fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl fmt::Display + 'a {
    Chain(error)
}

struct Chain<'a>(&'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text of an API error is its Debug form besides the message; the message is what a reader can use.
        let text = |error: &(dyn Error + 'static)| match error.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) if status.reason.is_empty() => status.message.clone(),
            Some(kube::Error::Api(status)) => format!("{} ({})", status.message, status.reason),
            _ => error.to_string(),
        };
        let mut said = text(self.0);
        f.write_str(&said)?;
        // The source of an API error is the status that was just printed.
        let mut next = if is_api(self.0) { None } else { self.0.source() };
        while let Some(source) = next {
            let more = text(source);
            if !said.contains(&more) {
                write!(f, ": {more}")?;
                said.push_str(&more);
            }
            next = if is_api(source) { None } else { source.source() };
        }
        Ok(())
    }
}

fn is_api(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Api(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Ours {
        #[error("could not write the binding for c1")]
        Apply(#[source] kube::Error),
        #[error("the stream broke: {0}")]
        Repeats(#[source] std::io::Error),
    }

    #[test]
    fn an_api_error_is_its_message_and_reason() {
        let status = kube::core::Status::failure("the object has been modified", "Conflict").with_code(409);
        let error = Ours::Apply(kube::Error::Api(status.boxed()));
        assert_eq!(
            chain(&error).to_string(),
            "could not write the binding for c1: the object has been modified (Conflict)"
        );
    }

    #[test]
    fn what_was_said_is_not_repeated() {
        let error = Ours::Repeats(std::io::Error::other("disk full"));
        assert_eq!(chain(&error).to_string(), "the stream broke: disk full");
    }
}
