//! JSON for people: indented, and coloured where colours are shown. `NO_COLOR` turns them off.

use console::Style;
use orrery_types::Value;

/// Whether standard output shows colours.
pub(crate) fn is_coloured() -> bool {
    crate::table::is_terminal() && console::colors_enabled()
}

/// A value over several lines, without a line feed at its end.
pub(crate) fn indented(value: &Value, coloured: bool) -> String {
    let mut printer = Printer { text: String::new(), coloured };
    printer.value(value, 0);
    printer.text
}

struct Printer {
    text: String,
    coloured: bool,
}

impl Printer {
    fn styled(&mut self, text: &str, style: Style) {
        if self.coloured {
            self.text += &style.force_styling(true).apply_to(text).to_string();
        } else {
            self.text += text;
        }
    }

    fn line(&mut self, depth: usize) {
        self.text.push('\n');
        self.text += &"  ".repeat(depth);
    }

    fn value(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Object(object) if object.iter().next().is_some() => {
                self.text.push('{');
                for (at, (name, member)) in object.iter().enumerate() {
                    if at > 0 {
                        self.text.push(',');
                    }
                    self.line(depth + 1);
                    let name = Value::from(&**name).to_json();
                    self.styled(&name, Style::new().cyan());
                    self.text += ": ";
                    self.value(member, depth + 1);
                }
                self.line(depth);
                self.text.push('}');
            }
            Value::Array(elements) if !elements.is_empty() => {
                self.text.push('[');
                for (at, element) in elements.iter().enumerate() {
                    if at > 0 {
                        self.text.push(',');
                    }
                    self.line(depth + 1);
                    self.value(element, depth + 1);
                }
                self.line(depth);
                self.text.push(']');
            }
            Value::String(_) => self.styled(&value.to_json(), Style::new().green()),
            Value::Number(_) => self.styled(&value.to_json(), Style::new().yellow()),
            other => self.styled(&other.to_json(), Style::new().magenta()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_coloured_only_if_asked() {
        let text = r#"{"id":"a\u001b[1m","n":1.5,"list":[true,{}],"none":[],"o":{"x":null}}"#;
        let value = Value::parse(text.as_bytes()).unwrap();
        let plain = indented(&value, false);
        let expected = "{\n  \"id\": \"a\\u001b[1m\",\n  \"n\": 1.5,\n  \"list\": [\n    true,\n    \
            {}\n  ],\n  \"none\": [],\n  \"o\": {\n    \"x\": null\n  }\n}";
        assert_eq!(plain, expected);
        let coloured = indented(&value, true);
        assert!(coloured.contains("\u{1b}[36m\"id\"\u{1b}[0m: \u{1b}[32m"), "{coloured:?}");
        assert_eq!(console::strip_ansi_codes(&coloured), plain);
    }
}
