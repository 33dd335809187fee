// How a request proves who sends it. With a key: an HMAC over verb, kind of resource, its link and the date;
// the key itself never leaves the browser. With an Entra ID token: the token, which is sent as it is.
import { hmacSha256 } from "./sha256";

/** What a signature says about a path. */
export interface SignedAddress {
  resourceType: string;
  link: string;
}

/** The parts of a decoded path that a signature covers. Feeds have an odd number of segments. */
export function signedAddress(segments: readonly string[]): SignedAddress {
  const count = segments.length;
  if (count === 0) return { resourceType: "", link: "" };
  if (segments[0] === "offers" && count === 2) {
    return { resourceType: "offers", link: segments[1]!.toLowerCase() };
  }
  if (segments[count - 2] === "operations") {
    return { resourceType: "colls", link: segments.slice(0, count - 2).join("/") };
  }
  const isFeed = count % 2 === 1;
  return {
    resourceType: segments[isFeed ? count - 1 : count - 2]!,
    link: segments.slice(0, isFeed ? count - 1 : count).join("/"),
  };
}

export function textToSign(method: string, address: SignedAddress, date: string): string {
  return `${method.toLowerCase()}\n${address.resourceType}\n${address.link}\n${date.toLowerCase()}\n\n`;
}

/** Signs texts with one key. */
export interface Signer {
  sign(text: string): Promise<string>;
}

/** An Entra ID token in place of a key. */
export interface BearerToken {
  token: string;
}

/** What a request proves its sender with. */
export type Credential = Signer | BearerToken;

/** Whether a text is a JSON Web Token: three parts in base64url, the first of which is a JSON object. */
export function isToken(input: string): boolean {
  return /^eyJ[\w-]+\.[\w-]+\.[\w-]+$/.test(input.trim());
}

/** The credential that a person has typed: a token, a key, or a connection string. */
export async function credentialFor(input: string): Promise<Credential> {
  return isToken(input) ? { token: input.trim() } : signerFor(input);
}

/** The key is not what it should be; the message is for the person who typed it. */
export class KeyError extends Error {}

/** Reads a key, or the key inside a connection string. */
export function readKey(input: string): string {
  const text = input.trim();
  const inside = /(?:^|;)\s*AccountKey\s*=\s*([^;]+)/i.exec(text)?.[1];
  const key = (inside ?? text).trim();
  if (key === "") throw new KeyError("Enter the account's key. The server prints it when it starts.");
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(key) || key.length % 4 !== 0) {
    throw new KeyError("This is not a key: a key is base64 text, as the server prints it when it starts.");
  }
  return key;
}

/** WebCrypto where the browser has it, our own arithmetic elsewhere. */
export async function signerFor(key: string): Promise<Signer> {
  const bytes = Uint8Array.from(atob(readKey(key)), (char) => char.charCodeAt(0));
  const encoder = new TextEncoder();
  if (globalThis.crypto?.subtle === undefined) {
    return { sign: async (text) => base64(hmacSha256(bytes, encoder.encode(text))) };
  }
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", bytes, algorithm, false, ["sign"]);
  return {
    sign: async (text) => {
      const signature = await crypto.subtle.sign("HMAC", imported, encoder.encode(text));
      return base64(new Uint8Array(signature));
    },
  };
}

export async function authorization(
  credential: Credential, method: string, segments: readonly string[], date: string,
): Promise<string> {
  if ("token" in credential) return encodeURIComponent(`type=aad&ver=1.0&sig=${credential.token}`);
  const signature = await credential.sign(textToSign(method, signedAddress(segments), date));
  return encodeURIComponent(`type=master&ver=1.0&sig=${signature}`);
}

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}
