//! From text to bytecode, once for every version of a script. A script is one function expression,
//! so its text stands where a module names its export; what it declares beside the function stays its
//! own.

use std::sync::Arc;

use orrery_types::Etag;
use rquickjs::module::{Declared, WriteOptions};
use rquickjs::{Ctx, Module, Value};

use crate::error::ScriptError;

/// A script as the catalog keeps it.
#[derive(Clone, Copy, Debug)]
pub struct Script<'s> {
    /// Its id; stack traces name it.
    pub name: &'s str,
    /// Its text.
    pub body: &'s str,
    /// Its version, under which the bytecode is kept.
    pub version: Etag,
}

impl Script<'_> {
    /// The script as a module that exports the function. The line break ends a comment.
    pub(crate) fn source(&self) -> String {
        format!("export default {}\n;", self.body)
    }

    /// The name of the module; a zero byte, which cannot stand in it, is left out.
    pub(crate) fn file(&self) -> String {
        format!("{}.js", self.name.replace('\0', ""))
    }
}

/// Whether a text means to be a function, so that a mistake in it should be told at once.
pub fn looks_like_function(body: &str) -> bool {
    let start = body.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
    let is_word = |word: &str| {
        start.strip_prefix(word).is_some_and(|rest| {
            !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$')
        })
    };
    is_word("function") || is_word("async") || start.starts_with("//") || start.starts_with("/*")
}

/// A module in the form the runtime reads it back.
pub(crate) type Bytecode = Arc<[u8]>;

/// Whether bytecode says where it comes from, as stack traces show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Debug {
    With,
    Without,
}

/// Compiles a module without running it.
pub(crate) fn compile(
    ctx: &Ctx<'_>,
    file: &str,
    source: &str,
    debug: Debug,
) -> rquickjs::Result<Bytecode> {
    let module = Module::declare(ctx.clone(), file, source)?;
    // Without the text, which only `toString` of a function would show.
    let strip_debug = debug == Debug::Without;
    let options = WriteOptions { strip_source: true, strip_debug, ..WriteOptions::default() };
    Ok(module.write(options)?.into())
}

/// Loads a module and runs it down to its export.
pub(crate) fn load<'js>(ctx: &Ctx<'js>, code: &Bytecode) -> rquickjs::Result<Value<'js>> {
    #[expect(
        unsafe_code,
        reason = "reading bytecode is safe for what the same library wrote; these bytes come out of \
                  `compile` in this process and never leave its memory"
    )]
    let module: Module<'js, Declared> = unsafe { Module::load(ctx.clone(), code)? };
    let (module, end) = module.eval()?;
    end.finish::<()>()?;
    module.get("default")
}

/// What a compiler's error says to whoever wrote the script.
pub(crate) fn syntax_error(text: &str, stack: &str) -> ScriptError {
    let place = stack.lines().next().map(str::trim).filter(|line| !line.is_empty());
    let text = place.map_or_else(|| text.to_owned(), |place| format!("{text}\r\n   {place}"));
    ScriptError::Syntax(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_to_be_a_function_is_told_from_other_text() {
        for body in
            ["function f() {", " (function(", "async () =>", "// says\nfunction", "function"]
        {
            assert!(looks_like_function(body), "{body}");
        }
        for body in ["Line Separator", "functional", "", "x => x", "42"] {
            assert!(!looks_like_function(body), "{body}");
        }
    }
}
