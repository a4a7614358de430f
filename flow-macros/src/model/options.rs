//! The words in the parentheses of `#[flow(..)]`, `#[key(..)]` and `#[fold(..)]`.

use quote::ToTokens;
use syn::{Expr, ExprArray, Ident, Lit, LitInt, LitStr, Path};

use super::Upgrades;
use crate::errors::Errors;
use crate::parse::{self, Arg, Args, Closure, Helper, Value};

/// Which form of `#[flow]` the words belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Function,
    Block,
}

/// The arguments of `#[flow(..)]`.
#[derive(Default)]
pub(super) struct Options {
    pub(super) flow: Option<Ident>,
    pub(super) name: Option<LitStr>,
    pub(super) key: Option<Closure>,
    pub(super) from: Option<Worded<Expr>>,
    pub(super) to: Option<Worded<Expr>>,
    pub(super) repartition: Option<Worded<LitStr>>,
    pub(super) state_version: Option<LitInt>,
    pub(super) upgrades: Option<Worded<Upgrades>>,
    pub(super) codec: Option<Path>,
    pub(super) root: Option<Path>,
}

/// A value with the word that introduces it.
pub(super) struct Worded<T> {
    pub(super) word: Ident,
    pub(super) value: T,
}

impl<T: ToTokens> ToTokens for Worded<T> {
    fn to_tokens(&self, tokens: &mut proc_macro2::TokenStream) {
        self.word.to_tokens(tokens);
        self.value.to_tokens(tokens);
    }
}

pub(super) const NO_NAME: &str = "a flow needs a name, as in `name = \"clicks-per-user\"`: its state is stored under it, \
                                  so it must outlive renames";

/// Reads the arguments of `#[flow(..)]`; the second half is true when one of them was reported, so that what seems to be
/// missing may only be misspelled.
pub(super) fn flow(args: Args, form: Form, errors: &mut Errors) -> (Options, bool) {
    let before = errors.len();
    let mut options = Options::default();
    let mut seen = Vec::new();
    for (index, Arg { word, value }) in args.args.into_iter().enumerate() {
        if let Value::None = value
            && !is_word(&word)
            && form == Form::Function
            && index == 0
        {
            options.flow = Some(word);
            continue;
        }
        if !is_known(&word, form) {
            unknown(&word, &value, form, errors);
            continue;
        }
        if seen.contains(&word) {
            errors.at(&word, format!("`{word}` is given twice"));
            continue;
        }
        seen.push(word.clone());
        options.set(word, value, errors);
    }
    if errors.len() == before {
        options.check_upgrades(errors);
    }
    (options, args.unread || errors.len() > before)
}

impl Options {
    fn set(&mut self, word: Ident, value: Value, errors: &mut Errors) {
        match (word.to_string().as_str(), value) {
            (_, Value::None) => errors.at(&word, format!("`{word}` needs a value, as in `{}`", example(&word))),
            ("name", value) => self.name = kafka_name(&word, value, errors),
            ("repartition", value) => {
                self.repartition = kafka_name(&word, value, errors).map(|value| Worded { word, value });
            }
            ("key", Value::Closure(closure)) => self.key = Some(*closure),
            ("state_version", value) => self.state_version = state_version(value, errors),
            ("upgrades", value) => self.upgrades = upgrades(value, errors).map(|value| Worded { word, value }),
            ("codec", Value::Path(path)) => self.codec = Some(path),
            ("crate", Value::Path(path)) => self.root = Some(path),
            ("from", value) => self.from = topic(value, errors).map(|value| Worded { word, value }),
            ("to", value) => self.to = topic(value, errors).map(|value| Worded { word, value }),
            (_, value) => errors.at(value, format!("expected `{}`", example(&word))),
        }
    }
}

impl Options {
    /// A list has one upgrade for each version before this one, as far back as it goes.
    fn check_upgrades(&self, errors: &mut Errors) {
        let Some(upgrades) = &self.upgrades else { return };
        let Some(version) = self.state_version.as_ref() else {
            errors.at(
                &upgrades.word,
                "`upgrades` goes with the `state_version` that they lead to: a state that never changed is version 1",
            );
            return;
        };
        let Upgrades::List(list) = &upgrades.value else { return };
        let before = version.base10_parse::<u32>().map_or(0, |version| version.saturating_sub(1));
        if list.elems.len() > before as usize {
            errors.at(
                list,
                format!(
                    "an upgrade leads from one version to the next, up to state version {version}: there can be {before} of \
                     them, and here are {}",
                    list.elems.len()
                ),
            );
        }
    }
}

/// Reads `#[fold(..)]` or `#[key(..)]`, where only `word` may stand.
pub(super) fn one_word(helper: &Helper, known: &str, errors: &mut Errors) -> Option<Worded<Value>> {
    let mut found = None;
    for Arg { word, value } in parse::args(parse::helper_args(&helper.attr), errors).args {
        if word != known {
            errors.at(&word, format!("expected `{known}`"));
        } else if found.is_some() {
            errors.at(&word, format!("`{word}` is given twice"));
        } else if let Value::None = value {
            errors.at(&word, format!("`{word}` needs a value, as in `{}`", example(&word)));
        } else {
            found = Some(Worded { word, value });
        }
    }
    found
}

/// `from = CLICKS`: a topic is a value, usually a constant.
pub(super) fn topic(value: Value, errors: &mut Errors) -> Option<Expr> {
    match value {
        Value::Expr(expr) => Some(*expr),
        value => {
            errors.at(
                value,
                "a topic is a typed constant, as in `const CLICKS: Topic<UserId, Click> = Topic::new(\"clicks\");`",
            );
            None
        }
    }
}

/// A name that becomes part of a topic's name.
pub(super) fn kafka_name(word: &Ident, value: Value, errors: &mut Errors) -> Option<LitStr> {
    let Value::Literal(Lit::Str(name)) = value else {
        errors.at(value, format!("`{word}` is a string literal: it reaches Kafka as it stands here"));
        return None;
    };
    let text = name.value();
    if text.is_empty() {
        errors.at(&name, format!("`{word}` is empty: it becomes part of a topic's name"));
    } else if let Some(bad) = text.chars().find(|c| !c.is_ascii_alphanumeric() && !"._-".contains(*c)) {
        errors.at(
            &name,
            format!(
                "`{word}` becomes part of a topic's name, where `{}` cannot stand: use letters, digits, `.`, `_`, `-`",
                bad.escape_default()
            ),
        );
    }
    Some(name)
}

fn state_version(value: Value, errors: &mut Errors) -> Option<LitInt> {
    if let Value::Literal(Lit::Int(number)) = &value
        && number.base10_parse::<u32>().is_ok_and(|number| number > 0)
    {
        return Some(number.clone());
    }
    errors.at(value, "a state version is a whole number from 1 on: the first is 1, each change of the state adds one");
    None
}

/// `upgrades = [with_pages]`, or a value that says more.
fn upgrades(value: Value, errors: &mut Errors) -> Option<Upgrades> {
    const SPELLING: &str = "upgrades are a list of functions, the oldest first, as in `upgrades = [with_pages]`: each takes the \
                            state of one version and returns that of the next";
    match value {
        Value::Expr(expr) => match *expr {
            Expr::Array(list) => list_of_upgrades(list, SPELLING, errors),
            expr @ (Expr::Call(_) | Expr::MethodCall(_)) => Some(Upgrades::Value(Box::new(expr))),
            expr => {
                errors.at(expr, SPELLING);
                None
            }
        },
        value => {
            errors.at(value, SPELLING);
            None
        }
    }
}

fn list_of_upgrades(list: ExprArray, spelling: &str, errors: &mut Errors) -> Option<Upgrades> {
    if list.elems.is_empty() {
        errors.at(&list, spelling);
        return None;
    }
    for upgrade in list.elems.iter().filter(|upgrade| !matches!(upgrade, Expr::Path(_))) {
        errors.at(upgrade, "an upgrade is named here, and written as a function beside the flow: it stays for ever");
    }
    Some(Upgrades::List(list))
}

const WORDS: [&str; 9] = ["name", "key", "from", "to", "repartition", "state_version", "upgrades", "codec", "crate"];

fn is_word(word: &Ident) -> bool {
    WORDS.iter().any(|known| word == known)
}

fn is_known(word: &Ident, form: Form) -> bool {
    is_word(word) && (form == Form::Function || (word != "key" && word != "repartition"))
}

fn unknown(word: &Ident, value: &Value, form: Form, errors: &mut Errors) {
    let text = match (form, value) {
        (Form::Block, _) if word == "key" => {
            "in an impl block the key is a function: mark the one that takes the event with `#[key]`".to_owned()
        }
        (Form::Block, _) if word == "repartition" => {
            "in an impl block this belongs to the key: `#[key(repartition = \"clicks-by-user\")]`".to_owned()
        }
        (Form::Block, Value::None) => {
            format!("the flow of an impl block is the block's own type: leave `{word}` out")
        }
        (Form::Function, Value::None) => {
            format!("the flow's name stands first and alone; expected `name = \"..\"` or another setting, not `{word}`")
        }
        (Form::Function, _) => "expected `name` or `key`; also known are `from`, `to`, `repartition`, \
                                `state_version`, `upgrades`, `codec` and `crate`"
            .to_owned(),
        (Form::Block, _) => {
            "expected `name`; also known are `from`, `to`, `state_version`, `upgrades`, `codec` and `crate`".to_owned()
        }
    };
    errors.at(word, text);
}

fn example(word: &Ident) -> &'static str {
    match word.to_string().as_str() {
        "name" => "name = \"clicks-per-user\"",
        "key" => "key = |click: &Click| -> UserId { click.user.clone() }",
        "from" => "from = CLICKS",
        "to" => "to = CLOSED",
        "repartition" => "repartition = \"clicks-by-user\"",
        "state_version" => "state_version = 2",
        "upgrades" => "upgrades = [with_pages]",
        "codec" => "codec = Json",
        _ => "crate = flow_core",
    }
}
