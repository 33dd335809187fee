import { expect, it } from "vitest";
import { compactJson } from "../src/protocol/json";
import { csvRecords, readImportFile } from "../src/text/import-file";

const items = (name: string, text: string) => readImportFile(name, text).items.map(compactJson);

it("JSON is read as an array, as one object and as lines, with exact numbers", () => {
  expect(items("a.json", '[{"id":"1","n":86810000000000000000000001},{"id":"2"}]')).toEqual(['{"id":"1","n":86810000000000000000000001}', '{"id":"2"}']);
  expect(items("a.json", '\uFEFF {"id":"1"}')).toEqual(['{"id":"1"}']);
  expect(items("a.jsonl", '{"id":"1"}\r\n\r\n{"id":"2"}\n')).toEqual(['{"id":"1"}', '{"id":"2"}']);
});

it("what is no item is named with its place, and the others are read", () => {
  const lines = readImportFile("a.jsonl", '{"id":"1"}\n[1]\n{"id":\n{"id":"2"}');
  expect([lines.items.length, lines.faults]).toEqual([2, ["Line 2 is no JSON object.", "Line 3 is no JSON object."]]);
  expect(readImportFile("a.json", '[{"id":"1"}, 5]').faults).toEqual(["Item 2 is no JSON object."]);
});

it("an item without an id gets one", () => {
  const [item] = readImportFile("a.json", '{"n":1}').items;
  expect(item!.id).toMatch(/^[\da-f-]{36}$/);
});

it("CSV has typed values, text where it was quoted, and nothing where a field is empty", () => {
  const text = 'id,n,flag,name,tags,gone,empty\r\n1,5,true,"5","[1,2]",,""\n2,-0.5,null,"a ""b"", c\nd",x,,\n';
  expect(items("a.csv", text)).toEqual([
    '{"id":"1","n":5,"flag":true,"name":"5","tags":[1,2],"empty":""}',
    '{"id":"2","n":-0.5,"flag":null,"name":"a \\"b\\", c\\nd","tags":"x"}',
  ]);
  expect(readImportFile("a.csv", "id,n\n1\n2,3").faults).toEqual(["Record 2 has 1 fields, and the header has 2."]);
  expect(readImportFile("a.csv", "").faults).toEqual(["The file is empty."]);
});

it("records end with any line end, and the last with none", () => {
  const texts = (text: string) => csvRecords(text).map((record) => record.map((field) => field.text));
  expect(texts("a,b\r\nc,\nd")).toEqual([["a", "b"], ["c", ""], ["d"]]);
  expect(texts("a,")).toEqual([["a", ""]]);
});
