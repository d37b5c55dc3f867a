//! Names, and why a text is none: in the words of Kubernetes' own libraries.

use fleet_api::names::SUBDOMAIN_MAX;

const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_RULE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
/// The longest part after the slash.
const NAME_MAX: usize = 63;

/// Why a text is no qualified name (`[dns-subdomain/]name`, the form of label keys). Empty if it is one.
pub fn qualified_name(text: &str) -> Vec<String> {
    let rule =
        || format!("{NAME_RULE} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{NAME}')");
    let mut errors = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(
                    dns_subdomain(prefix)
                        .into_iter()
                        .map(|why| format!("prefix part {why}")),
                );
            }
            *name
        }
        _ => {
            let further = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a qualified name {} {further}", rule())];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_MAX {
        errors.push(format!("name part must be no more than {NAME_MAX} bytes"));
    }
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if !edge(name.bytes().next()) || !edge(name.bytes().next_back()) || !name.bytes().all(inner) {
        errors.push(format!("name part {}", rule()));
    }
    errors
}

/// Why a text is no DNS subdomain (RFC 1123). Empty if it is one.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(format!("must be no more than {SUBDOMAIN_MAX} bytes"));
    }
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let part = |part: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        edge(part.bytes().next()) && edge(part.bytes().next_back()) && part.bytes().all(inner)
    };
    if !text.split('.').all(part) {
        errors.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    errors
}

#[cfg(test)]
mod tests {
    use fleet_api::names::is_dns_subdomain;

    use super::*;

    #[test]
    fn names_are_judged_as_kubernetes_judges_them() {
        let long = "x".repeat(64);
        for (text, first) in [
            ("a", None),
            ("example.com/a_b.C-1", None),
            ("", Some("name part must be non-empty")),
            ("/a", Some("prefix part must be non-empty")),
            (
                "A/a",
                Some("prefix part a lowercase RFC 1123 subdomain must consist of"),
            ),
            (
                "a/b/c",
                Some("a qualified name must consist of alphanumeric characters"),
            ),
            ("-a", Some("name part must consist of alphanumeric characters")),
            ("é", Some("name part must consist of alphanumeric characters")),
            (&long, Some("name part must be no more than 63 bytes")),
        ] {
            let errors = qualified_name(text);
            match first {
                None => assert_eq!(errors, [""; 0], "{text}"),
                Some(first) => assert!(errors[0].starts_with(first), "{text}: {errors:?}"),
            }
        }
        for text in ["a", "a.b-c.1", "", ".", "a..b", "A", "-a", "a-", "é"] {
            assert_eq!(dns_subdomain(text).is_empty(), is_dns_subdomain(text), "{text}");
        }
        assert_eq!(dns_subdomain(&"a".repeat(254)), ["must be no more than 253 bytes"]);
    }
}
