import { expect, it } from "vitest";
import { EditBuffer } from "../src/state/edit-buffer";

interface Version {
  etag: number;
  n: number;
}

const textOf = (version: Version | null) => (version === null ? "new" : `n = ${version.n}`);
const bufferOf = (base: Version | null) => new EditBuffer<Version>(base, textOf);
const stateOf = (buffer: EditBuffer<Version>) => ({ text: buffer.text.value, etag: buffer.base.value?.etag, isModified: buffer.isModified.value });

it("a version that is read again replaces a text that nobody has changed", () => {
  const buffer = bufferOf({ etag: 1, n: 1 });
  expect(buffer.refresh({ etag: 2, n: 2 })).toBe(true);
  expect(stateOf(buffer)).toEqual({ text: "n = 2", etag: 2, isModified: false });
});

it("a version that is read again leaves what was typed, and the etag that was typed over", () => {
  const buffer = bufferOf({ etag: 1, n: 1 });
  buffer.text.value = "n = 10";
  expect(buffer.refresh({ etag: 2, n: 2 })).toBe(false);
  expect(stateOf(buffer)).toEqual({ text: "n = 10", etag: 1, isModified: true });
});

it("a text that is typed back to the original takes the version that is read again", () => {
  const buffer = bufferOf({ etag: 1, n: 1 });
  buffer.text.value = "n = 10";
  buffer.text.value = "n = 1";
  expect(buffer.refresh({ etag: 2, n: 2 })).toBe(true);
  expect(stateOf(buffer)).toMatchObject({ etag: 2, isModified: false });
});

it("a saved text becomes the version that the server stored", () => {
  const buffer = bufferOf({ etag: 1, n: 1 });
  buffer.text.value = "n   =   10";
  buffer.saved({ etag: 2, n: 10 }, "n   =   10");
  expect(stateOf(buffer)).toEqual({ text: "n = 10", etag: 2, isModified: false });
});

it("what was typed while a text was saved is a change of the saved version", () => {
  const buffer = bufferOf(null);
  buffer.text.value = "n = 10";
  const sent = buffer.text.value;
  buffer.text.value = "n = 100";
  buffer.saved({ etag: 1, n: 10 }, sent);
  expect(stateOf(buffer)).toEqual({ text: "n = 100", etag: 1, isModified: true });
});

it("changes are carried over to another version, or given up", () => {
  const buffer = bufferOf({ etag: 1, n: 1 });
  buffer.text.value = "n = 10";
  buffer.rebase({ etag: 2, n: 2 });
  expect(stateOf(buffer)).toEqual({ text: "n = 10", etag: 2, isModified: true });
  buffer.reset();
  expect(stateOf(buffer)).toEqual({ text: "n = 2", etag: 2, isModified: false });
});
