import { describe, expect, it } from "vitest";
import { findJsonFault, lineAndColumn } from "../src/text/json-fault";
import { RawNumber, compactJson, parseJson, prettyJson, withoutSystemProperties } from "../src/protocol/json";

describe("JSON", () => {
  it.each([
    '{"a":12345678901234567890}', '{"a":1.0}', '{"a":1e400,"b":-0}', "[0.10,1E5,9007199254740993]",
    '{"__proto__":{"x":1.50},"s":"12345678901234567890 \\" \\\\"}', '"\\u2028"', "null", "[]", '{"a":[{},[[]]]}',
  ])("%s comes back as it was", (text) => {
    expect(compactJson(parseJson(text))).toBe(text === '"\\u2028"' ? '"\u2028"' : text);
  });

  it("keeps ordinary numbers ordinary", () => {
    expect(parseJson('{"a":1,"b":2.5,"c":12345678901234567890}')).toEqual({
      a: 1, b: 2.5, c: new RawNumber("12345678901234567890"),
    });
  });

  it("reads white space and commas anywhere they may be", () => {
    const text = ' { "a" : [ 1.0 , 2 ,\n3 ] , "b" : { } , "c" : [ ] } ';
    expect(compactJson(parseJson(text))).toBe('{"a":[1.0,2,3],"b":{},"c":[]}');
  });

  it("names the place of a fault", () => {
    expect(() => parseJson('{"a": tru}')).toThrow(SyntaxError);
  });

  it("is printed for people", () => {
    expect(prettyJson({ a: [1, 2], b: { c: "x" }, d: [{ e: 1 }], f: {}, g: [] })).toBe(
      '{\n  "a": [1, 2],\n  "b": {\n    "c": "x"\n  },\n  "d": [\n    {\n      "e": 1\n    }\n  ],\n  "f": {},\n  "g": []\n}',
    );
  });

  it("leaves the properties of the system aside", () => {
    expect(withoutSystemProperties({ id: "1", _etag: "x", _own: 1 })).toEqual({ id: "1", _own: 1 });
  });
});

describe("a fault in JSON", () => {
  it.each([
    ['{"a": }', 6, "a value is missing here"],
    ['{"a": 1,}', 8, "a comma stands before the end"],
    ['{"a" 1}', 5, "a colon is missing here"],
    ["[1 2]", 3, "a comma or ] is missing here"],
    ["{a: 1}", 1, "the name of a property is missing here, in double quotes"],
    ['["x]', 1, "this string does not end, or holds an escape that does not exist"],
    ["{} x", 3, "the text goes on after its end"],
    ["[01]", 2, "a comma or ] is missing here"],
    ["", 0, "a value is missing here"],
  ])("in %s is at %i: %s", (text, at, message) => {
    expect(findJsonFault(text)).toEqual({ at, message });
    expect(() => JSON.parse(text)).toThrow();
  });

  it.each(['{"a":[1,-2.5e3,"x\\u00e9\\n",true,null,{}]}', " [ ] ", '"s"', "0"])("is not in %s", (text) => {
    expect(findJsonFault(text)).toBeNull();
    JSON.parse(text);
  });

  it("has a line and a column", () => {
    expect(lineAndColumn("ab\ncd", 4)).toEqual({ line: 2, column: 2 });
  });
});
