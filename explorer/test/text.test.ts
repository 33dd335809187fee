import { describe, expect, it } from "vitest";
import { RawNumber } from "../src/protocol/json";
import { cellOf, columnsOf, csv } from "../src/text/csv";
import { type DiffLine, diffLines } from "../src/text/diff";
import { duplicateText, newItemText } from "../src/text/new-item";

const show = (lines: DiffLine[]) =>
  lines.map(({ kind, text }) => `${{ same: " ", removed: "-", added: "+" }[kind]}${text}`).join("\n");
const lines = (text: string) => text.split("").join("\n");

describe("a diff", () => {
  it("shows what was removed and what was added", () => {
    expect(show(diffLines("a\nb\nc", "a\nx\nc\nd"))).toBe(" a\n-b\n+x\n c\n+d");
  });

  it("of equal texts is all the same, also of nothing", () => {
    expect(show(diffLines("a\nb", "a\nb"))).toBe(" a\n b");
    expect(show(diffLines("", ""))).toBe(" ");
  });

  it("finds a shortest script", () => {
    const edits = diffLines(lines("abcabba"), lines("cbabac")).filter((line) => line.kind !== "same");
    expect(edits).toHaveLength(5);
  });

  it("leads from the one text to the other, whatever they are", () => {
    let seed = 7;
    const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
    for (let round = 0; round < 300; round++) {
      const text = () => Array.from({ length: random(14) }, () => "abc"[random(3)]).join("\n");
      const [before, after] = [text(), text()];
      const diff = diffLines(before, after);
      const side = (without: string) => diff.filter((line) => line.kind !== without).map((line) => line.text).join("\n");
      expect(side("added")).toBe(before);
      expect(side("removed")).toBe(after);
    }
  });
});

describe("a table", () => {
  const rows = [{ id: "1", _ts: 3, a: 1 }, { id: "2", b: { c: [1] } }, 7];

  it("has every property as a column, those of the system last", () => {
    expect(columnsOf(rows)).toEqual(["id", "a", "b", "value", "_ts"]);
    expect(cellOf(rows[1]!, "a")).toBeUndefined();
    expect(cellOf({ a: 1 }, "constructor")).toBeUndefined();
  });

  it("is CSV with quotes where they are needed", () => {
    const table = csv([{ a: 'say "hi"', b: "x,y" }, { a: " pad", b: null }, { a: new RawNumber("1.0") }], ["a", "b"]);
    expect(table).toBe('a,b\r\n"say ""hi""","x,y"\r\n" pad",null\r\n1.0,\r\n');
  });
});

describe("a new item", () => {
  it("has an id of its own and a place for each part of the partition key", () => {
    const item = JSON.parse(newItemText(["/tenant", '/address/"post code"'])) as Record<string, unknown>;
    expect(item).toEqual({ id: item.id, tenant: "", address: { "post code": "" } });
    expect(item.id).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
    expect(Object.keys(JSON.parse(newItemText(["/id"])) as object)).toEqual(["id"]);
    expect(newItemText(["/a"])).not.toBe(newItemText(["/a"]));
  });

  it("that duplicates another has its properties, exact numbers among them, and another id", () => {
    const item = { id: "a", n: new RawNumber("86810000000000000000000000"), tags: ["x"], _etag: '"1"', _rid: "r", _self: "s", _ts: 1, _attachments: "a" };
    const text = duplicateText(item);
    expect(text).toContain("86810000000000000000000000");
    expect(text).not.toContain('"a"');
    expect(Object.keys(JSON.parse(text) as object)).toEqual(["id", "n", "tags"]);
  });
});
