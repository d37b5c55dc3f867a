//! A test that passes only at its second try is a bug: it fails on a person's machine, and is listed by CI.

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::process::Command;

    /// What nextest writes of one test that passed at once, one that failed twice, and one that passed at its second try.
    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="1" errors="0">
    <testsuite name="fleet-e2e::rollout" tests="3" disabled="0" errors="0" failures="1">
        <testcase name="overrides::good" classname="fleet-e2e::rollout" timestamp="2026-01-01T00:00:00" time="1.0">
        </testcase>
        <testcase name="overrides::bad" classname="fleet-e2e::rollout" timestamp="2026-01-01T00:00:00" time="1.0">
            <failure type="test failure">said &lt;flakyFailure</failure>
            <rerunFailure timestamp="2026-01-01T00:00:00" time="1.0" type="test failure"></rerunFailure>
        </testcase>
        <testcase name="overrides::moody" classname="fleet-e2e::rollout" timestamp="2026-01-01T00:00:00" time="1.0">
            <flakyFailure timestamp="2026-01-01T00:00:00" time="1.0" type="test failure"></flakyFailure>
        </testcase>
    </testsuite>
</testsuites>
"#;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
    }

    #[test]
    fn ci_lists_the_tests_that_passed_only_at_their_second_try() {
        let dir = tempfile::tempdir().unwrap();
        let (program, target) = (dir.path().join("cargo-nextest"), dir.path().join("target"));
        let report = target.join("nextest/ci/junit.xml");
        let script = format!(
            "#!/bin/sh\nmkdir -p $(dirname {0})\ncat > {0} <<'EOF'\n{REPORT}EOF\nexit 100\n",
            report.display()
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        for _ in 0..2 {
            let run = Command::new(root().join(".ci/nextest"))
                .env("CARGO_TARGET_DIR", &target)
                .env("NEXTEST_PROGRAM", &program)
                .env("NEXTEST_PROFILE", "ci")
                .status();
            assert_eq!(run.unwrap().code(), Some(100), "what nextest says is passed on");
        }
        let listed = std::fs::read_to_string(target.join("flaky.txt")).unwrap();
        assert_eq!(
            listed,
            "fleet-e2e::rollout overrides::moody\n".repeat(2),
            "all runs are in it"
        );
    }

    #[test]
    fn only_ci_tries_twice() {
        let config = std::fs::read_to_string(root().join(".config/nextest.toml")).unwrap();
        let mut section = "";
        let mut tries = Vec::new();
        for line in config.lines().map(str::trim) {
            if line.starts_with('[') {
                section = line;
            } else if line.starts_with("retries") {
                tries.push((section, line));
            }
        }
        assert_eq!(tries, [("[[profile.ci.overrides]]", "retries = 1")]);
    }
}
