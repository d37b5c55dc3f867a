//! Evaluates a tree within a budget.

use cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue, SelectExpr, operators},
};

use super::{
    Fault,
    budget::{Budget, weight},
    cut, functions,
    term::{Evaluated, Term},
};

/// The longest name in a text for people, in bytes.
const NAME_MAX: usize = 60;

/// A name and its value, and those around it.
pub(super) struct Scope<'s, 'a> {
    pub(super) name: &'a str,
    /// What a fold has come to may be a fault, which a later element can make up for.
    pub(super) value: Evaluated<'a>,
    pub(super) outer: Option<&'s Scope<'s, 'a>>,
}

impl<'a> Scope<'_, 'a> {
    fn find(&self, budget: &mut Budget, name: &str) -> Evaluated<'a> {
        let mut here = Some(self);
        while let Some(scope) = here {
            budget.spend(weight(name))?;
            if scope.name == name {
                return scope.value.clone();
            }
            here = scope.outer;
        }
        Err(Fault::wrong("an unknown name"))
    }
}

/// The value of `tree`, which [`super::parse::parse`] has found to be in order.
pub(super) fn evaluate<'a>(budget: &mut Budget, tree: &'a IdedExpr, scope: &Scope<'_, 'a>) -> Evaluated<'a> {
    budget.spend(1)?;
    match &tree.expr {
        Expr::Literal(literal) => constant(budget, literal),
        Expr::Ident(name) => scope.find(budget, name),
        Expr::Select(select) => field(budget, select, scope),
        Expr::List(list) => {
            let elements = list.elements.iter().map(|element| evaluate(budget, element, scope));
            Ok(Term::List(elements.collect::<Result<_, _>>()?))
        }
        Expr::Call(call) => self::call(budget, call, scope),
        Expr::Comprehension(fold) => self::fold(budget, fold, scope),
        Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => Err(Fault::wrong("an unknown value")),
    }
}

fn constant<'a>(budget: &mut Budget, literal: &'a LiteralValue) -> Evaluated<'a> {
    Ok(match literal {
        LiteralValue::Null => Term::Null,
        LiteralValue::Boolean(value) => Term::Bool(*value.inner()),
        LiteralValue::Int(value) => Term::Int(*value.inner()),
        LiteralValue::UInt(value) => Term::Uint(*value.inner()),
        LiteralValue::Double(value) => Term::Double(*value.inner()),
        LiteralValue::String(value) => {
            budget.spend(1)?;
            Term::Text(value.inner())
        }
        LiteralValue::Bytes(_) => return Err(Fault::wrong("bytes")),
    })
}

/// `operand.field`, or whether there is one.
fn field<'a>(budget: &mut Budget, select: &'a SelectExpr, scope: &Scope<'_, 'a>) -> Evaluated<'a> {
    let operand = evaluate(budget, &select.operand, scope)?;
    budget.spend(weight(&select.field))?;
    let Term::Object(map) = operand else {
        let name = cut(&select.field, NAME_MAX);
        return Err(Fault::wrong(format!("{} has no {name}", operand.kind())));
    };
    let found = map.get(&select.field);
    if select.test {
        return Ok(Term::Bool(found.is_some()));
    }
    found
        .map(Term::of)
        .ok_or_else(|| Fault::Absent(cut(&select.field, NAME_MAX).into()))
}

fn call<'a>(budget: &mut Budget, call: &'a CallExpr, scope: &Scope<'_, 'a>) -> Evaluated<'a> {
    match (call.func_name.as_str(), call.args.as_slice()) {
        (operators::LOGICAL_AND, [a, b]) => either(budget, [a, b], scope, false),
        (operators::LOGICAL_OR, [a, b]) => either(budget, [a, b], scope, true),
        (operators::CONDITIONAL, [condition, yes, no]) => {
            let chosen = if truth(evaluate(budget, condition, scope)?)? {
                yes
            } else {
                no
            };
            evaluate(budget, chosen, scope)
        }
        (operators::NOT_STRICTLY_FALSE, [value]) => match evaluate(budget, value, scope) {
            Err(Fault::TooCostly) => Err(Fault::TooCostly),
            value => Ok(Term::Bool(!matches!(value, Ok(Term::Bool(false))))),
        },
        (name, _) => {
            let mut values = Vec::new();
            for value in call.target.as_deref().into_iter().chain(&call.args) {
                values.push(evaluate(budget, value, scope)?);
            }
            functions::call(budget, name, &values)
        }
    }
}

/// One of two that is `enough` decides, whatever becomes of the other.
fn either<'a>(budget: &mut Budget, both: [&'a IdedExpr; 2], scope: &Scope<'_, 'a>, enough: bool) -> Evaluated<'a> {
    let mut outcome = Ok(!enough);
    for one in both {
        match evaluate(budget, one, scope).and_then(truth) {
            Ok(value) if value == enough => return Ok(Term::Bool(enough)),
            Err(Fault::TooCostly) => return Err(Fault::TooCostly),
            Err(fault) => outcome = outcome.and(Err(fault)),
            Ok(_) => {}
        }
    }
    outcome.map(Term::Bool)
}

fn truth(term: Term<'_>) -> Result<bool, Fault> {
    match term {
        Term::Bool(value) => Ok(value),
        other => Err(Fault::wrong(format!("{} where true or false is needed", other.kind()))),
    }
}

/// `all`, `exists`, `exists_one`, `map` and `filter`, as the parser has written them.
fn fold<'a>(budget: &mut Budget, fold: &'a ComprehensionExpr, scope: &Scope<'_, 'a>) -> Evaluated<'a> {
    let range = evaluate(budget, &fold.iter_range, scope)?;
    let Some(items) = range.items(budget)? else {
        return Err(Fault::wrong(format!("{} where a list is needed", range.kind())));
    };
    if let Some((wanted, element)) = grown(fold) {
        return grow(budget, fold, items, wanted, element, scope);
    }
    let mut value = evaluate(budget, &fold.accu_init, scope);
    for item in items {
        budget.spend(1)?;
        let so_far = Scope {
            name: &fold.accu_var,
            value,
            outer: Some(scope),
        };
        if !truth(evaluate(budget, &fold.loop_cond, &so_far)?)? {
            return evaluate(budget, &fold.result, &so_far);
        }
        let inner = Scope {
            name: &fold.iter_var,
            value: Ok(item),
            outer: Some(&so_far),
        };
        value = evaluate(budget, &fold.loop_step, &inner);
        if matches!(value, Err(Fault::TooCostly)) {
            return value;
        }
    }
    let done = Scope {
        name: &fold.accu_var,
        value,
        outer: Some(scope),
    };
    evaluate(budget, &fold.result, &done)
}

/// The condition and the element of a fold that adds to a list: made anew for each element, it would cost its square.
fn grown(fold: &ComprehensionExpr) -> Option<(Option<&IdedExpr>, &IdedExpr)> {
    let (wanted, step) = match &fold.loop_step.expr {
        Expr::Call(call) if call.func_name == operators::CONDITIONAL => match call.args.as_slice() {
            [wanted, step, _] => (Some(wanted), step),
            _ => return None,
        },
        _ => (None, &fold.loop_step),
    };
    match &step.expr {
        Expr::Call(call) if call.func_name == operators::ADD => match call.args.as_slice() {
            [
                _,
                IdedExpr {
                    expr: Expr::List(list), ..
                },
            ] => list.elements.first().map(|element| (wanted, element)),
            _ => None,
        },
        _ => None,
    }
}

fn grow<'a>(
    budget: &mut Budget,
    fold: &'a ComprehensionExpr,
    items: Vec<Term<'a>>,
    wanted: Option<&'a IdedExpr>,
    element: &'a IdedExpr,
    scope: &Scope<'_, 'a>,
) -> Evaluated<'a> {
    let mut list = Vec::new();
    for item in items {
        budget.spend(1)?;
        let inner = Scope {
            name: &fold.iter_var,
            value: Ok(item),
            outer: Some(scope),
        };
        let is_wanted = match wanted {
            Some(wanted) => truth(evaluate(budget, wanted, &inner)?)?,
            None => true,
        };
        if is_wanted {
            list.push(evaluate(budget, element, &inner)?);
        }
    }
    Ok(Term::List(list.into()))
}
