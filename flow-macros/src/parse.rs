//! The words as they are written, judged by nobody yet.
//!
//! Bodies stay unread groups of tokens: while somebody types `click.` the body is no Rust, and an editor can only complete
//! what the macro hands back untouched.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::token::Brace;
use syn::{Attribute, Expr, Ident, ItemFn, ItemImpl, Lit, Pat, Path, Result, Signature, Token, Type, Visibility};

use crate::errors::Errors;

// ---------------------------------------------------------------------------------------------------- arguments

/// One argument of an attribute: a word alone (`ClicksPerUser`), or a word with its value (`name = "clicks-per-user"`).
pub(crate) struct Arg {
    pub(crate) word: Ident,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    /// The word stood alone.
    None,
    Literal(Lit),
    Closure(Box<Closure>),
    Path(Path),
    Expr(Box<Expr>),
}

/// `|click: &Click| -> UserId { click.user.clone() }`, with its body unread.
pub(crate) struct Closure {
    pub(crate) pattern: Pat,
    pub(crate) event: Type,
    pub(crate) output: Type,
    pub(crate) body: Group,
}

impl ToTokens for Value {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::None => {}
            Self::Literal(literal) => literal.to_tokens(tokens),
            Self::Path(path) => path.to_tokens(tokens),
            Self::Expr(expr) => expr.to_tokens(tokens),
            Self::Closure(closure) => {
                closure.pattern.to_tokens(tokens);
                closure.event.to_tokens(tokens);
                closure.output.to_tokens(tokens);
                tokens.append(closure.body.clone());
            }
        }
    }
}

/// The arguments of an attribute.
pub(crate) struct Args {
    pub(crate) args: Vec<Arg>,
    /// Some could not be read, and were reported.
    pub(crate) unread: bool,
}

impl Args {
    /// What the user calls flow-core, if they said so: `crate = ..`.
    pub(crate) fn root(&self) -> Option<&Path> {
        self.args.iter().find_map(|arg| match &arg.value {
            Value::Path(path) if arg.word == "crate" => Some(path),
            _ => None,
        })
    }
}

/// Reads the arguments of an attribute. One that cannot be read is reported, and the next one is read all the same.
pub(crate) fn args(tokens: TokenStream, errors: &mut Errors) -> Args {
    let before = errors.len();
    let read = |input: ParseStream<'_>| {
        let mut args = Vec::new();
        while !input.is_empty() {
            if let Some(arg) = errors.take(arg(input)) {
                args.push(arg);
                if !input.is_empty() && !input.peek(Token![,]) {
                    errors.push(input.error("expected a comma"));
                }
            }
            skip_past_comma(input)?;
        }
        Ok(args)
    };
    let args = read.parse2(tokens);
    let args = errors.take(args).unwrap_or_default();
    Args { args, unread: errors.len() > before }
}

fn arg(input: ParseStream<'_>) -> Result<Arg> {
    if !input.peek(Ident::peek_any) {
        return Err(input.error("expected a word, as in `word = value`"));
    }
    let word = input.call(Ident::parse_any)?;
    if input.is_empty() || input.peek(Token![,]) {
        return Ok(Arg { word, value: Value::None });
    }
    input.parse::<Token![=]>()?;
    let value = match word.to_string().as_str() {
        "key" => Value::Closure(Box::new(input.parse()?)),
        "codec" | "crate" => Value::Path(input.parse()?),
        _ if input.peek(Lit) => Value::Literal(input.parse()?),
        _ => Value::Expr(input.parse()?),
    };
    Ok(Arg { word, value })
}

fn skip_past_comma(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() {
        if let TokenTree::Punct(punct) = input.parse()?
            && punct.as_char() == ','
        {
            break;
        }
    }
    Ok(())
}

impl Parse for Closure {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        const SPELLING: &str = "a key is spelled as a closure with both of its types, as in \
                                `key = |click: &Click| -> UserId { click.user.clone() }`";
        let whole = input.fork();
        let read = || -> Result<Self> {
            input.parse::<Token![|]>()?;
            let pattern = Pat::parse_single(input)?;
            input.parse::<Token![:]>()?;
            let event = input.parse()?;
            input.parse::<Token![|]>()?;
            input.parse::<Token![->]>()?;
            let output = input.parse()?;
            let body = match input.parse()? {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => group,
                other => return Err(syn::Error::new_spanned(other, SPELLING)),
            };
            Ok(Self { pattern, event, output, body })
        };
        read().map_err(|_| whole.error(SPELLING))
    }
}

// --------------------------------------------------------------------------------------------------------- items

/// The annotated item.
pub(crate) enum Item {
    Function(Box<Function>),
    Block(Box<Block>),
    /// Rust, but neither a function nor an impl block.
    Other,
    /// Not Rust as we know it: rustc explains that better than we could.
    Broken,
}

/// An annotated function; its own tokens are emitted as they came.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
}

/// An annotated impl block.
pub(crate) struct Block {
    /// The block without its members.
    pub(crate) header: ItemImpl,
    pub(crate) members: Vec<Member>,
    /// All before the braces, as it came.
    head: TokenStream,
    inner_attrs: Vec<Attribute>,
    braces: Group,
}

/// A member of an annotated impl block.
pub(crate) struct Member {
    pub(crate) attrs: Vec<Attribute>,
    /// The attributes that this macro takes off: `#[key]`, `#[fold]`, `#[timer]`.
    pub(crate) helpers: Vec<Helper>,
    /// None: this member is not a function.
    pub(crate) sig: Option<Signature>,
    /// The member without its attributes, as it came.
    rest: TokenStream,
}

pub(crate) struct Helper {
    pub(crate) kind: HelperKind,
    pub(crate) attr: Attribute,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HelperKind {
    Key,
    Fold,
    Timer,
}

impl HelperKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Fold => "fold",
            Self::Timer => "timer",
        }
    }
}

/// The annotated item, and the tokens to emit for it: what came, without the helper attributes.
///
/// `root` is what the user calls flow-core, if they said so.
pub(crate) fn item(tokens: &TokenStream, root: Option<&Path>) -> Item {
    let Some((head, braces)) = split_at_body(tokens.clone()) else {
        return other(tokens);
    };
    let mut bare = head.clone();
    bare.append(Group::new(Delimiter::Brace, TokenStream::new()));
    if let Ok(ItemFn { attrs, vis, sig, .. }) = syn::parse2(bare.clone()) {
        return Item::Function(Box::new(Function { attrs, vis, sig }));
    }
    let Ok(header) = syn::parse2::<ItemImpl>(bare) else {
        return other(tokens);
    };
    let members = |input: ParseStream<'_>| members(input, root);
    match members.parse2(braces.stream()) {
        Ok((inner_attrs, members)) => Item::Block(Box::new(Block { header, members, head, inner_attrs, braces })),
        Err(_) => Item::Broken,
    }
}

fn other(tokens: &TokenStream) -> Item {
    match syn::parse2::<syn::Item>(tokens.clone()) {
        Ok(syn::Item::Verbatim(_)) | Err(_) => Item::Broken,
        Ok(_) => Item::Other,
    }
}

/// Splits an item at the braces that end it; an item that came through a `macro_rules!` macro may be wrapped once more.
fn split_at_body(tokens: TokenStream) -> Option<(TokenStream, Group)> {
    let mut head: Vec<TokenTree> = tokens.into_iter().collect();
    match head.pop()? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some((head.into_iter().collect(), group)),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None && head.is_empty() => {
            split_at_body(group.stream())
        }
        _ => None,
    }
}

fn members(input: ParseStream<'_>, root: Option<&Path>) -> Result<(Vec<Attribute>, Vec<Member>)> {
    let inner_attrs = input.call(Attribute::parse_inner)?;
    let mut members = Vec::new();
    while !input.is_empty() {
        members.push(member(input, root)?);
    }
    Ok((inner_attrs, members))
}

fn member(input: ParseStream<'_>, root: Option<&Path>) -> Result<Member> {
    let (mut attrs, mut helpers) = (Vec::new(), Vec::new());
    for attr in input.call(Attribute::parse_outer)? {
        match helper_kind(attr.path(), root) {
            Some(kind) => helpers.push(Helper { kind, attr }),
            None => attrs.push(attr),
        }
    }
    let sig = signature(&input.fork());
    let ends_in_braces = sig.is_some() || is_macro_call(&input.fork());
    let mut rest = TokenStream::new();
    loop {
        let token: TokenTree = input.parse()?;
        let ends = match &token {
            TokenTree::Punct(punct) => punct.as_char() == ';',
            TokenTree::Group(group) => ends_in_braces && group.delimiter() == Delimiter::Brace,
            _ => false,
        };
        rest.append(token);
        if ends {
            return Ok(Member { attrs, helpers, sig, rest });
        }
    }
}

fn is_macro_call(ahead: ParseStream<'_>) -> bool {
    ahead.call(Path::parse_mod_style).is_ok() && ahead.peek(Token![!])
}

fn signature(ahead: ParseStream<'_>) -> Option<Signature> {
    ahead.parse::<Visibility>().ok()?;
    let sig = ahead.parse().ok()?;
    ahead.peek(Brace).then_some(sig)
}

/// `fold` and `flow_core::fold` are ours; `other::fold` is somebody else's.
fn helper_kind(path: &Path, root: Option<&Path>) -> Option<HelperKind> {
    let mut segments = path.segments.iter().rev();
    let kind = match segments.next()?.ident.to_string().as_str() {
        "key" => HelperKind::Key,
        "fold" => HelperKind::Fold,
        "timer" => HelperKind::Timer,
        _ => return None,
    };
    let ours = |owner: &Ident| {
        owner == "flow_core" || root.and_then(|root| root.segments.last()).is_some_and(|root| root.ident == *owner)
    };
    segments.next().is_none_or(|owner| ours(&owner.ident)).then_some(kind)
}

impl ToTokens for Block {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.head.to_tokens(tokens);
        let mut content = TokenStream::new();
        content.append_all(&self.inner_attrs);
        for member in &self.members {
            content.append_all(&member.attrs);
            member.rest.to_tokens(&mut content);
        }
        let mut braces = Group::new(Delimiter::Brace, content);
        braces.set_span(self.braces.span());
        tokens.append(braces);
    }
}

/// What stands in the parentheses of a helper attribute; an attribute without parentheses has nothing there.
pub(crate) fn helper_args(attr: &Attribute) -> TokenStream {
    match &attr.meta {
        syn::Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    }
}
