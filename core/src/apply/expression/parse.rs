//! From text to a tree that is safe to walk.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cel::{
    IdedExpr,
    common::ast::{CallExpr, Expr, LiteralValue},
    parser::{ParseErrors, PrattParser},
};

use super::{NAMES, cut, functions};

/// The longest expression.
const BYTES_MAX: usize = 4096;

/// How many operators, brackets and commas one may have. Each level of a tree takes at least one of them, and the parser
/// and the destructor of trees go down level by level: more of them could overflow the stack, which nothing catches.
const MARKS_MAX: usize = 512;

/// How deep brackets may be nested.
const NESTED_MAX: u16 = 32;

/// How deep the tree may be that is evaluated.
const DEPTH_MAX: usize = 64;

/// The tree of `text`, in which every name and every function is known and nothing nests too deep.
pub(super) fn parse(text: &str) -> Result<IdedExpr, String> {
    if text.len() > BYTES_MAX {
        return Err(format!("it is longer than {BYTES_MAX} bytes"));
    }
    if marks(text) > MARKS_MAX {
        return Err(format!("it has more than {MARKS_MAX} operators, brackets and commas"));
    }
    let parser = PrattParser::new()
        .max_recursion_depth(NESTED_MAX)
        .error_recovery_limit(0);
    let parsed = catch_unwind(AssertUnwindSafe(|| parser.parse(text)));
    let tree = parsed
        .map_err(|_| "it cannot be read".to_owned())?
        .map_err(|errors| first(&errors))?;
    check(&tree, &mut NAMES.to_vec(), 0)?;
    Ok(tree)
}

/// No fewer than there are levels in the tree of `text`. What stands in quotes counts too.
fn marks(text: &str) -> usize {
    let is_quote = |c: char| matches!(c, '_' | '\'' | '"' | '\\');
    let signs = text
        .chars()
        .filter(|c| c.is_ascii_punctuation() && !is_quote(*c))
        .count();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    signs + words.filter(|word| *word == "in").count()
}

/// What is wrong first, and where. The parser has more to say about what follows from it.
fn first(errors: &ParseErrors) -> String {
    let errors = &errors.errors;
    if errors.iter().any(|error| error.msg.contains("recursion limit")) {
        return too_deep();
    }
    match errors.iter().find(|error| error.pos.0 > 0).or(errors.first()) {
        Some(error) => format!("at {}:{}: {}", error.pos.0, error.pos.1, error.msg),
        None => "it cannot be read".to_owned(),
    }
}

fn too_deep() -> String {
    "it nests too deep".to_owned()
}

/// Whether all of `tree` can be evaluated where the names in `scope` are known.
fn check<'a>(tree: &'a IdedExpr, scope: &mut Vec<&'a str>, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    let depth = depth + 1;
    match &tree.expr {
        Expr::Literal(LiteralValue::Bytes(_)) => Err("bytes cannot be used here".to_owned()),
        Expr::Literal(_) => Ok(()),
        Expr::Ident(name) if scope.contains(&name.as_str()) => Ok(()),
        Expr::Ident(name) => Err(format!("nothing is called {} here, but self is", cut(name, 60))),
        Expr::Select(select) => check(&select.operand, scope, depth),
        Expr::List(list) => all(&list.elements, scope, depth),
        Expr::Call(call) => {
            if !functions::is_known(call) {
                return Err(unknown(call));
            }
            all(call.target.as_deref(), scope, depth)?;
            all(&call.args, scope, depth)
        }
        Expr::Comprehension(fold) => {
            all([&fold.iter_range, &fold.accu_init], scope, depth)?;
            scope.extend([fold.accu_var.as_str(), fold.iter_var.as_str()]);
            all([&fold.loop_cond, &fold.loop_step], scope, depth)?;
            scope.pop();
            let checked = check(&fold.result, scope, depth);
            scope.pop();
            checked
        }
        Expr::Map(_) | Expr::Struct(_) => Err("maps and messages cannot be made here".to_owned()),
        Expr::Unspecified => Err("it cannot be read".to_owned()),
    }
}

fn all<'a>(
    trees: impl IntoIterator<Item = &'a IdedExpr>,
    scope: &mut Vec<&'a str>,
    depth: usize,
) -> Result<(), String> {
    trees.into_iter().try_for_each(|tree| check(tree, scope, depth))
}

fn unknown(call: &CallExpr) -> String {
    let name = cut(&call.func_name, 60);
    if functions::NAMES.contains(&name) {
        format!("{name}() is used with other arguments than it has")
    } else {
        format!("there is no {name}() here")
    }
}
