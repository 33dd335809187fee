//! From text to bytecode, once for every version of a script. A script is one function, and what it
//! declares beside it; it runs in sloppy mode, as the service's do. The server's own JavaScript is
//! modules.

use std::ffi::CString;
use std::sync::Arc;

use orrery_types::Etag;
use rquickjs::module::{Declared, WriteOptions};
use rquickjs::{Ctx, Error, Module, Value, qjs};

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
    /// A program whose value is the function. The line break ends a comment.
    pub(crate) fn source(&self) -> String {
        match declared_name(self.body) {
            Some(name) => format!("{}\n;{name}", self.body),
            // A property, since a variable would give the function its name.
            None => format!("this.$script = {}\n;this.$script", self.body),
        }
    }

    /// The name of the module; a zero byte, which cannot stand in it, is left out.
    pub(crate) fn file(&self) -> String {
        format!("{}.js", self.name.replace('\0', ""))
    }
}

/// Whether a text means to be a function, so that a syntax error is reported at once.
pub fn looks_like_function(body: &str) -> bool {
    let start = body.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
    let is_word = |word: &str| {
        start.strip_prefix(word).is_some_and(|rest| {
            !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$')
        })
    };
    is_word("function") || is_word("async") || start.starts_with("//") || start.starts_with("/*")
}

/// The name of the function that a text declares first, if it does.
fn declared_name(body: &str) -> Option<&str> {
    let mut rest = body.trim_start();
    loop {
        rest = if let Some(line) = rest.strip_prefix("//") {
            line.split_once('\n')?.1.trim_start()
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/")?.1.trim_start()
        } else {
            break;
        };
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let spaced = |rest: &'_ str| rest.starts_with(char::is_whitespace);
    if let Some(behind) = rest.strip_prefix("async").filter(|behind| spaced(behind)) {
        rest = behind.trim_start();
    }
    let rest = rest.strip_prefix("function")?;
    let rest = rest.strip_prefix('*').or_else(|| spaced(rest).then_some(rest))?.trim_start();
    let rest = rest.strip_prefix('*').unwrap_or(rest).trim_start();
    let name = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
    let is_declared = rest[name.len()..].trim_start().starts_with('(');
    (!name.is_empty() && is_declared).then_some(name)
}

/// A module or script in the form the runtime reads it back.
pub(crate) type Bytecode = Arc<[u8]>;

/// Compiles a module without running it.
pub(crate) fn compile(ctx: &Ctx<'_>, file: &str, source: &str) -> rquickjs::Result<Bytecode> {
    let module = Module::declare(ctx.clone(), file, source)?;
    // Without the text, which only `toString` of a function would show, and without what stack traces
    // say of it.
    let options = WriteOptions { strip_source: true, strip_debug: true, ..WriteOptions::default() };
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

/// Compiles a script without running it.
#[expect(unsafe_code, reason = "the library compiles modules only, and those are strict")]
pub(crate) fn compile_script(
    ctx: &Ctx<'_>,
    file: &str,
    source: String,
) -> rquickjs::Result<Bytecode> {
    let (length, source) = (source.len(), CString::new(source)?);
    let file = CString::new(file)?;
    let raw = ctx.as_raw().as_ptr();
    let flags = (qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY).cast_signed();
    // SAFETY: both texts end with a zero byte and outlive the call; the context is alive.
    let program = unsafe {
        let program =
            qjs::JS_Eval(raw, source.as_ptr(), length as qjs::size_t, file.as_ptr(), flags);
        Value::from_raw(ctx.clone(), program)
    };
    if program.is_exception() {
        return Err(Error::Exception);
    }
    let mut size: qjs::size_t = 0;
    let flags = (qjs::JS_WRITE_OBJ_BYTECODE | qjs::JS_WRITE_OBJ_STRIP_SOURCE).cast_signed();
    // SAFETY: what is written is a compiled program of this context. The buffer is the library's, of
    // the length it says, and freed once it has been copied.
    unsafe {
        let written = qjs::JS_WriteObject(raw, &raw mut size, program.as_raw(), flags);
        if written.is_null() {
            return Err(Error::Exception);
        }
        let length = usize::try_from(size).unwrap_or(0);
        let code = Bytecode::from(std::slice::from_raw_parts(written, length));
        qjs::js_free(raw, written.cast());
        Ok(code)
    }
}

/// Loads a script and runs it down to its value, the function.
#[expect(
    unsafe_code,
    reason = "reading bytecode is safe for what the same library wrote; these bytes come out of \
              `compile_script` in this process and never leave its memory"
)]
pub(crate) fn load_script<'js>(ctx: &Ctx<'js>, code: &Bytecode) -> rquickjs::Result<Value<'js>> {
    let raw = ctx.as_raw().as_ptr();
    let flags = qjs::JS_READ_OBJ_BYTECODE.cast_signed();
    // SAFETY: the bytes are a program's, and are copied; running it takes the program over.
    let value = unsafe {
        let program = qjs::JS_ReadObject(raw, code.as_ptr(), code.len() as qjs::size_t, flags);
        if qjs::JS_VALUE_GET_NORM_TAG(program) == qjs::JS_TAG_EXCEPTION {
            return Err(Error::Exception);
        }
        Value::from_raw(ctx.clone(), qjs::JS_EvalFunction(raw, program))
    };
    if value.is_exception() { Err(Error::Exception) } else { Ok(value) }
}

/// The message of a compiler's error for the author of the script.
pub(crate) fn syntax_error(text: &str, stack: &str) -> ScriptError {
    let place = stack.lines().next().map(str::trim).filter(|line| !line.is_empty());
    let text = place.map_or_else(|| text.to_owned(), |place| format!("{text}\r\n   {place}"));
    ScriptError::Syntax(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_that_a_text_declares_is_found() {
        for (body, name) in [
            ("function f(a) {}", Some("f")),
            (" // says\n/* more */ function  $g_1 (a) {}", Some("$g_1")),
            ("async function f() {}", Some("f")),
            ("function* f() {}", Some("f")),
            ("async function() {}", None),
            ("function () {}", None),
            ("function(f) {}", None),
            ("(function f() {})", None),
            ("asyncfunction f() {}", None),
            ("functionf() {}", None),
            ("x => x", None),
            ("// only", None),
            ("", None),
        ] {
            assert_eq!(declared_name(body), name, "{body}");
        }
    }

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
