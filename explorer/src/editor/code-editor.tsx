// A CodeMirror editor as a component. It lives in a shadow root, because there its styles are style
// sheets made by script, which the page's security policy permits; elsewhere they would be inline.
import { closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, linter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, type Extension, Prec } from "@codemirror/state";
import {
  EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers,
  placeholder as placeholderText,
} from "@codemirror/view";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { findJsonFault } from "../text/json-fault";
import { HIGHLIGHT, THEME } from "./theme";

export type Language = "json" | "javascript" | Extension;

export interface Fault {
  from: number;
  to: number;
  message: string;
}

interface Props {
  label: string;
  language: Language;
  text: string;
  onChange?: (text: string) => void;
  isReadOnly?: boolean;
  faults?: readonly Fault[];
  placeholder?: string;
  /** Keys beside the usual ones, such as `Mod-Enter`. */
  keys?: Readonly<Record<string, () => void>>;
  isFilling?: boolean;
  /** Takes the focus when it appears, except where that would open a keyboard on the screen. */
  isFocused?: boolean;
}

function languageExtension(language: Language, faults: () => readonly Fault[]): Extension {
  // The checker's outcome replaces what is marked, so it must know what others have found.
  if (language === "json") return [json(), linter((view) => [...jsonFaults(view), ...diagnostics(view, faults())])];
  return language === "javascript" ? javascript() : language;
}

/** An empty editor is no fault yet. */
function jsonFaults(view: EditorView): Diagnostic[] {
  const text = view.state.doc.toString();
  const fault = text.trim() === "" ? null : findJsonFault(text);
  if (fault === null) return [];
  const from = Math.min(fault.at, text.length - 1);
  return [{ from, to: from + 1, severity: "error", message: fault.message }];
}

/** A fault at the end of the text has no width; the last character is marked so that it is seen. */
function diagnostics(view: EditorView, faults: readonly Fault[]): Diagnostic[] {
  const length = view.state.doc.length;
  return faults.map(({ from, to, message }): Diagnostic => {
    const end = Math.min(to, length);
    return { from: Math.max(0, Math.min(from, from >= end ? end - 1 : length)), to: end, severity: "error", message };
  });
}

const BASICS: Extension = [
  lineNumbers(), foldGutter(), highlightSpecialChars(), history(), drawSelection(), indentOnInput(), bracketMatching(),
  closeBrackets(), highlightActiveLine(), highlightActiveLineGutter(), highlightSelectionMatches(),
  syntaxHighlighting(HIGHLIGHT), EditorView.lineWrapping, lintGutter(), THEME,
  keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...completionKeymap, indentWithTab]),
];

export function CodeEditor(props: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const readOnly = useRef(new Compartment());

  useLayoutEffect(() => {
    const { label, language, text, keys = {}, isReadOnly = false, placeholder } = latest.current;
    const root = host.current!.shadowRoot ?? host.current!.attachShadow({ mode: "open" });
    const own = Object.keys(keys).map((key) => ({
      key,
      run: () => {
        latest.current.keys?.[key]?.();
        return true;
      },
    }));
    const editor = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: text,
        extensions: [
          Prec.highest(keymap.of(own)),
          BASICS,
          languageExtension(language, () => latest.current.faults ?? []),
          readOnly.current.of(EditorState.readOnly.of(isReadOnly)),
          // Editable content takes the focus anyway; the attribute says so to tools that check for it.
          EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
          placeholder ? placeholderText(placeholder) : [],
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange?.(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    if (latest.current.isFocused && !window.matchMedia("(pointer: coarse)").matches) editor.focus();
    return () => editor.destroy();
  }, []);

  // Right after rendering, before another key can be pressed: later, the text of this rendering may
  // be older than the editor's, and setting it would undo what was typed since.
  useLayoutEffect(() => {
    const editor = view.current;
    if (editor === null) return;
    const current = editor.state.doc.toString();
    if (current !== props.text) editor.dispatch({ changes: { from: 0, to: current.length, insert: props.text } });
  }, [props.text]);

  useEffect(() => {
    view.current!.dispatch({
      effects: readOnly.current.reconfigure(EditorState.readOnly.of(props.isReadOnly ?? false)),
    });
  }, [props.isReadOnly]);

  useEffect(() => {
    const editor = view.current!;
    if (props.faults === undefined) return;
    const found = diagnostics(editor, props.faults);
    const effects = found[0] ? EditorView.scrollIntoView(found[0].from, { y: "nearest", yMargin: 40 }) : [];
    editor.dispatch(setDiagnostics(editor.state, found), { effects });
  }, [props.faults]);

  return <div ref={host} class={props.isFilling ? "code-editor filling" : "code-editor"} data-label={props.label} />;
}
