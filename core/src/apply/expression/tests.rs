use std::{collections::HashMap, sync::Arc};

use super::*;
use crate::apply::merge::tests::any_json;
use proptest::prelude::*;
use serde_json::json;

fn certificate() -> Value {
    json!({
        "metadata": {"name": "c", "generation": 3, "labels": {"a": "b"}},
        "spec": {"replicas": 3, "share": 0.5, "big": 18_446_744_073_709_551_615_u64},
        "status": {"phase": "Ready", "observedGeneration": 3, "ready": 3, "message": null, "nodes": ["n1", "n2"],
            "conditions": [
                {"type": "Synced", "status": "False"},
                {"type": "Ready", "status": "True", "observedGeneration": 3},
                {"type": "Odd"}]},
    })
}

fn wrong(text: &str) -> Answer {
    Answer::Wrong(text.to_owned())
}

#[test]
fn what_holds() {
    for expression in [
        "self.status.phase == 'Ready'",
        "object.status.phase == \"Ready\"",
        "self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
        // The third condition has no status: that matters only if no other decides.
        "!self.status.conditions.all(c, c.status == 'True')",
        "self.status.conditions.exists_one(c, c.type == 'Ready')",
        "self.status.conditions.filter(c, has(c.status)).size() == 2",
        "self.status.conditions.map(c, c.type) == ['Synced', 'Ready', 'Odd']",
        "self.status.conditions.map(c, has(c.status), c.status)[1] == 'True'",
        "self.status.observedGeneration >= self.metadata.generation",
        "self.status.ready * 2 >= self.spec.replicas + 3 && self.status.ready % 2 == 1 && 7 / 2 == 3 && -self.status.ready < 0",
        "double(self.status.ready) / double(self.spec.replicas) >= 0.9",
        "self.spec.share == 0.5 && self.spec.share < 1 && 1.0 == 1 && self.spec.big > 1 && 2u > 1",
        "self.metadata.labels['a'] == 'b' && 'a' in self.metadata.labels && !('x' in self.metadata.labels)",
        "'n1' in self.status.nodes && self.status.nodes[1] == 'n2' && size(self.status.nodes) == 2",
        "has(self.status.message) && self.status.message == null && !has(self.status.other)",
        "has(self.status.other) ? self.status.other == 1 : true",
        "self.status.other == 1 || self.status.phase == 'Ready'",
        "self.metadata.labels.all(key, key == 'a')",
        "self.status.phase.startsWith('Re') && self.status.phase.endsWith('dy') && self.status.phase.contains('ead')",
        "'Größe'.size() == 5 && 'a' + 'b' == 'ab' && [1] + [2] == [1, 2] && 'a' < 'b' && false < true",
        "int('3') == 3 && int(3.9) == 3 && string(3) == '3' && string(true) == 'true' && double('0.5') == 0.5",
        "self.status.conditions[0] != self.status.conditions[1] && self.metadata == object.metadata",
        "self.status.phase != 3 && [1] != 'a' && [1, 2u, 3.0] == [1.0, 2, 3]",
        "!false // why",
    ] {
        assert_eq!(judge(expression, &certificate()), Answer::Holds, "{expression}");
    }
}

#[test]
fn what_does_not() {
    for expression in [
        "self.status.phase == 'Waiting'",
        "self.status.conditions.exists(c, c.type == 'Gone')",
        "self.status.other == 1 && false",
        "[].exists(x, x)",
        "self.status.ready == '3'",
        "self.spec.share > double('nan')",
    ] {
        assert_eq!(judge(expression, &certificate()), Answer::DoesNot, "{expression}");
    }
    let new = json!({"metadata": {"name": "c"}});
    for expression in [
        "self.status.phase == 'Ready'",
        "has(self.status.phase)",
        "self.status.x.y || false",
    ] {
        assert_eq!(judge(expression, &new), Answer::DoesNot, "{expression}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (expression, text) in [
        ("self.status.phse == 'Ready'", "no such key: phse"),
        ("self.status.phase.x", "a text has no x"),
        ("self.status.nodes[2] == 'n3'", "a list has no such element"),
        ("self.status.nodes[-1] == 'n3'", "a list has no such element"),
        ("self.metadata.labels['x'] == 'y'", "a map has no such element"),
        ("self.status.ready", "it is an integer, not true or false"),
        ("self", "it is a map, not true or false"),
        ("status.phase == 'Ready'", "nothing is called status here, but self is"),
        ("self.status.phase.matches('a*')", "there is no matches() here"),
        ("true || now()", "there is no now() here"),
        (
            "size(self, self) == 1",
            "size() is used with other arguments than it has",
        ),
        ("self.status.phase < 3", "< has no value for a text and an integer"),
        ("1 / 0 == 1", "/ has no value for an integer and an integer"),
        (
            "9223372036854775807 + 1 > 0",
            "+ has no value for an integer and an integer",
        ),
        ("!self.status.phase", "! has no value for a text"),
        ("self.status.phase && true", "a text where true or false is needed"),
        ("self.status.phase.all(c, true)", "a text where a list is needed"),
        ("self.status.phase == 'Ready", "at 1:22: unterminated string literal"),
        ("self.?status", "at 1:5: unsupported syntax '.?'"),
        ("{'a': 1} == self", "maps and messages cannot be made here"),
        ("b'a' == b'a'", "bytes cannot be used here"),
    ] {
        assert_eq!(judge(expression, &certificate()), wrong(text), "{expression}");
    }
}

/// What would hang, exhaust or crash whoever evaluates it without bounds. It ends the test run if it does so here, where the
/// stack is half of what agents have.
#[test]
fn what_costs_too_much_is_refused() {
    let narrow = std::thread::Builder::new().stack_size(1 << 20).spawn(costly);
    narrow.expect("a thread").join().expect("no panic");
}

fn costly() {
    let deep = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    for expression in [
        "a".repeat(5000),
        " ".repeat(5000),
        deep("(", "true", ")", 300),
        deep("[", "", "]", 300),
        deep("!(", "true", ")", 150),
        deep("size(", "self", ")", 200),
        deep("has(", "self.a", ")", 200),
        format!("{}true", "!-".repeat(2000)),
        format!("{}true", "!".repeat(4000)),
        format!("{}true", "true ? true : ".repeat(290)),
        format!("1{}", "+1".repeat(2000)),
        format!("1{}", " in self".repeat(500)),
        format!("self{}", ".a".repeat(2000)),
        format!("self{}", ".a()".repeat(1000)),
        format!("self{}", "[self]".repeat(600)),
        format!("[1]{}", ".map(a,a)".repeat(450)),
        format!("{}true", "[1].map(a,".repeat(400)),
        format!("[{}]", "1,".repeat(2000)),
        // As far as a parser ever sees it.
        format!("{}true", "!-".repeat(256)),
        format!("1{}", "+1".repeat(512)),
        format!("self{}", ".a".repeat(512)),
        format!("self{}", ".a()".repeat(170)),
        format!("self{}", "[self]".repeat(256)),
        format!("1{}", " in self".repeat(512)),
        format!("{}true", "true ? true : ".repeat(256)),
        format!("[1]{}", ".map(a,a)".repeat(102)),
        deep("[1].map(a,", "a", ")", 85),
        "(".repeat(4096),
        "'".repeat(4096),
        "\u{1F600}".repeat(1000),
        (0..12).fold("[1]".to_owned(), |list, _| format!("({list} + {list})")) + " == self",
    ] {
        let answer = judge(&expression, &certificate());
        assert!(matches!(answer, Answer::Wrong(_)), "{answer:?}: {expression:.60}");
    }
    let wide = json!({"list": (0..3000).collect::<Vec<_>>(), "text": "a".repeat(1 << 20)});
    for expression in [
        "self.list.all(a, self.list.all(b, self.list.all(c, true)))",
        "self.list.map(a, self.list.map(b, self.list)).size() > 0",
        "self.list.all(a, self.text.contains('ab' + self.text) || true)",
        "self.list.map(a, self.text + self.text).size() > 0",
        "self.list.all(a, self == object)",
        "self.list.exists(a, self.missing.all(b, true) || self.list.exists(c, self.missing))",
        "[self.text].map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a)[0].size() > 0",
    ] {
        assert_eq!(
            judge(expression, &wide),
            wrong("it costs too much on this object"),
            "{expression}"
        );
    }
    // What is large but sensible is not.
    for expression in [
        "self.list.all(a, a < 3000)",
        "self.list.filter(a, a % 2 == 0).size() == 1500",
        "self.list.map(a, a + 1).exists(a, a == 3000)",
        "self.text.startsWith('aaa') && self == object",
    ] {
        assert_eq!(judge(expression, &wide), Answer::Holds, "{expression}");
    }
}

#[test]
fn answers_are_short() {
    let Answer::Wrong(text) = judge(&format!("self.{}", "é1".repeat(1000)), &json!({})) else {
        panic!("it is wrong");
    };
    assert!(text.len() <= TEXT_MAX, "{text}");
    let Answer::Wrong(text) = judge(&format!("self.{}", "a".repeat(4000)), &json!({})) else {
        panic!("it is wrong");
    };
    assert!(text.len() <= TEXT_MAX, "{text}");
}

/// Expressions with the value of a boolean, a number, a text and a list.
fn sensible() -> BoxedStrategy<String> {
    let pick = |words: &'static [&'static str]| prop::sample::select(words).prop_map(str::to_owned).boxed();
    let mut bools = pick(&[
        "true",
        "false",
        "self.yes",
        "has(self.n)",
        "self.list == [1, 2]",
        "self.none == null",
    ]);
    let mut numbers = pick(&["0", "1", "-2", "x", "self.n", "x", "self.list[0]"]);
    let mut texts = pick(&["'a'", "''", "'ab'", "self.t", "self.list[1]"]);
    let mut lists = pick(&["[]", "[1, 2]", "self.list", "[x, 3]"]);
    for _ in 0..3 {
        let (yes, number, text, list) = (bools.clone(), numbers.clone(), texts.clone(), lists.clone());
        let fold = prop::sample::select(vec!["all", "exists", "exists_one"]);
        let order = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
        let both = prop::sample::select(vec!["&&", "||", "==", "!="]);
        let sum = prop::sample::select(vec!["+", "-", "*", "/", "%"]);
        let part = prop::sample::select(vec!["startsWith", "endsWith", "contains"]);
        bools = prop_oneof![
            (yes.clone(), both, yes.clone()).prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
            (number.clone(), order.clone(), number.clone()).prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
            (text.clone(), order, text.clone()).prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
            (text.clone(), part, text.clone()).prop_map(|(a, name, b)| format!("{a}.{name}({b})")),
            (list.clone(), fold, yes.clone()).prop_map(|(a, name, b)| format!("{a}.{name}(x, {b})")),
            (number.clone(), list.clone()).prop_map(|(a, b)| format!("({a} in {b})")),
            yes.clone().prop_map(|a| format!("!({a})")),
        ]
        .boxed();
        numbers = prop_oneof![
            (number.clone(), sum, number.clone()).prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
            (yes.clone(), number.clone(), number.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (list.clone(), number.clone()).prop_map(|(a, b)| format!("{a}[{b}]")),
            prop_oneof![text.clone(), list.clone()].prop_map(|a| format!("size({a})")),
        ]
        .boxed();
        texts = prop_oneof![
            (text.clone(), text).prop_map(|(a, b)| format!("({a} + {b})")),
            number.clone().prop_map(|a| format!("string({a})")),
        ]
        .boxed();
        lists = prop_oneof![
            (list.clone(), list.clone()).prop_map(|(a, b)| format!("({a} + {b})")),
            (list.clone(), number).prop_map(|(a, b)| format!("{a}.map(x, {b})")),
            (list, yes).prop_map(|(a, b)| format!("{a}.filter(x, {b})")),
        ]
        .boxed();
    }
    bools.prop_map(|text| format!("[1].all(x, {text})")).boxed()
}

/// An object of which [`sensible`] expressions speak.
fn spoken_of() -> BoxedStrategy<Value> {
    let list = prop::collection::vec(-2_i64..4, 0..4);
    (any::<bool>(), prop::option::of(-3_i64..4), "[ab]{0,3}", list)
        .prop_map(|(yes, n, t, list)| {
            let mut object = json!({"yes": yes, "t": t, "list": list, "none": null, "status": {}});
            if let Some(n) = n {
                object["n"] = n.into();
            }
            object
        })
        .boxed()
}

/// Words of the language in any order.
fn senseless() -> BoxedStrategy<String> {
    let word = prop::sample::select(vec![
        "self",
        "a",
        "x",
        "1",
        "1u",
        "0x",
        "1e",
        ".5",
        "'a'",
        "'",
        "\"",
        "r'",
        "b'\\x41'",
        "'''",
        "\\",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ".",
        ",",
        ":",
        "?",
        "!",
        "-",
        "+",
        "*",
        "/",
        "%",
        "==",
        "=",
        "<",
        "&&",
        "&",
        "||",
        "in",
        "has(",
        ".map(",
        ".all(x,",
        "exists_one(",
        "size(",
        " ",
        "//",
        "\n",
        "é",
        "\u{1F600}",
        "\0",
        "`a`",
        "for",
        "null",
    ]);
    prop::collection::vec(word, 0..60)
        .prop_map(|words| words.concat())
        .boxed()
}

/// What the crate's own interpreter says, if it says true or false.
fn theirs(expression: &str, object: &Value) -> Option<bool> {
    let env = Arc::new(cel::Env::stdlib());
    let program = env.compile(expression).ok()?;
    let mut context = cel::Context::with_env(env);
    context.add_variable_from_value("self", their_value(object));
    match program.execute(&context) {
        Ok(cel::Value::Bool(value)) => Some(value),
        _ => None,
    }
}

fn their_value(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Number(number) => cel::Value::Int(number.as_i64().unwrap_or_default()),
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(list) => cel::Value::List(list.iter().map(their_value).collect::<Vec<_>>().into()),
        Value::Object(map) => {
            let fields = map.iter().map(|(key, value)| (key.clone(), their_value(value)));
            cel::Value::Map(fields.collect::<HashMap<_, _>>().into())
        }
    }
}

proptest! {
    #[test]
    fn nothing_that_people_may_write_is_too_odd(text in prop_oneof![senseless(), sensible(), ".{0,80}"], object in any_json()) {
        let _ = judge(&text, &object);
    }

    /// Where both have a value it is the same.
    #[test]
    fn the_meaning_is_that_of_the_language(text in sensible(), object in spoken_of()) {
        let ours = match judge(&text, &object) {
            Answer::Holds => Some(true),
            Answer::DoesNot => Some(false),
            Answer::Wrong(_) => None,
        };
        let theirs = theirs(&text, &object);
        prop_assert_eq!(ours, theirs, "{} of {}", text, object);
    }
}
