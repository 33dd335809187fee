import { describe, expect, it } from "vitest";
import { hmacSha256, sha256 } from "../src/protocol/sha256";
import { KeyError, authorization, credentialFor, isToken, readKey, signedAddress, signerFor, textToSign } from "../src/protocol/signature";

const KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
const DATE = "Thu, 27 Apr 2017 00:51:12 GMT";

const VECTORS = [
  ["GET", ["dbs", "ToDoList"], "mM0rMK/7o1MZhQwDitGRoGisPRPx09os/86Jk0YwquY="],
  ["GET", [], "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc="],
  ["POST", ["dbs", "db1", "colls", "c1", "docs"], "pTGQzKdYvdxaLYLD3NjExGL/mezZdIeS3Mak7aIS7VA="],
  ["GET", ["dbs", "db1", "colls", "c1", "docs", "a b"], "SBny2blEduZoZuZYoXskn09UROyNHsH4b8eVVndxDVc="],
  ["PUT", ["offers", "XY12"], "g23P9qCH+BGWB0yW9xOZ7Tu04hHKTpykGd8fIYZtNZQ="],
] as const;

const hex = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const bytes = (text: string) => new TextEncoder().encode(text);

describe("signatures", () => {
  it.each(VECTORS)("%s %j has the signature of the published example", async (method, segments, expected) => {
    const signer = await signerFor(KEY);
    expect(await signer.sign(textToSign(method, signedAddress(segments), DATE))).toBe(expected);
    const header = await authorization(signer, method, segments, DATE);
    expect(decodeURIComponent(header)).toBe(`type=master&ver=1.0&sig=${expected}`);
  });

  it("are the same where the browser has no WebCrypto", () => {
    const key = Uint8Array.from(atob(KEY), (char) => char.charCodeAt(0));
    for (const [method, segments, expected] of VECTORS) {
      const signature = hmacSha256(key, bytes(textToSign(method, signedAddress(segments), DATE)));
      expect(btoa(String.fromCharCode(...signature))).toBe(expected);
    }
  });

  it("name the container when all items of a key are deleted", () => {
    const path = ["dbs", "d", "colls", "c", "operations", "partitionkeydelete"];
    expect(signedAddress(path)).toEqual({ resourceType: "colls", link: "dbs/d/colls/c" });
  });
});

describe("our own SHA-256", () => {
  it("agrees with the standard's examples", () => {
    expect(hex(sha256(bytes("")))).toBe("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect(hex(sha256(bytes("abc")))).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  });

  it("agrees with WebCrypto at every length around a block", async () => {
    for (let length = 0; length < 200; length++) {
      const message = Uint8Array.from({ length }, (_, index) => (index * 31 + length) & 0xff);
      const expected = new Uint8Array(await crypto.subtle.digest("SHA-256", message));
      expect(hex(sha256(message))).toBe(hex(expected));
    }
  });

  it("takes keys longer than a block", () => {
    const signature = hmacSha256(new Uint8Array(131).fill(0xaa), bytes("Test Using Larger Than Block-Size Key - Hash Key First"));
    expect(hex(signature)).toBe("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  });
});

describe("what a person types as a key", () => {
  it("may be a connection string", () => {
    expect(readKey(` AccountEndpoint=https://localhost:8081/;AccountKey=${KEY};`)).toBe(KEY);
    expect(readKey(`${KEY}\n`)).toBe(KEY);
  });

  it("may be an Entra ID token, which is sent as it is", async () => {
    const token = `${btoa('{"alg":"RS256"}').replaceAll("=", "")}.${btoa('{"oid":"x"}').replaceAll("=", "")}.c2ln-_8`;
    expect(isToken(` ${token}\n`)).toBe(true);
    const header = await authorization(await credentialFor(` ${token}\n`), "GET", ["dbs"], DATE);
    expect(decodeURIComponent(header)).toBe(`type=aad&ver=1.0&sig=${token}`);
    for (const other of [KEY, `AccountKey=${KEY};`, "a.b.c", "eyJ.x", `${token}.x`, ""]) expect(isToken(other), other).toBe(false);
  });

  it.each(["", "  ", "hello world", "abc", "AccountKey=;"])("is refused when it is %j", (input) => {
    expect(() => readKey(input)).toThrow(KeyError);
  });
});
