// The account the page is connected to. The key or token lives in this tab's session storage, or in local
// storage when the person asks for it; never in the page's address or its source.
import { computed, signal } from "@preact/signals";
import { Client, type LoggedRequest } from "../protocol/client";
import type { JsonObject } from "../protocol/json";
import { Problem, describe } from "../protocol/problem";
import { credentialFor, isToken, readKey } from "../protocol/signature";

const STORED_KEY = "orrery.key";
const LOG_LENGTH = 200;

export interface Account {
  client: Client;
  name: string;
  consistency: string;
}

export const account = signal<Account | null>(null);
/** Whether a kept key is being tried; the connect screen waits for the outcome. */
export const isStarting = signal(true);

/** The latest requests, newest first. */
export const requests = signal<readonly LoggedRequest[]>([]);
export const chargeTotal = signal(0);
export const lastRequest = computed(() => requests.value[0]);

function logRequest(request: LoggedRequest): void {
  requests.value = [request, ...requests.value].slice(0, LOG_LENGTH);
  chargeTotal.value += request.charge;
}

export function endpoint(): string {
  return `${location.origin}/`;
}

/** The client of the connected account; views exist only while there is one. */
export function client(): Client {
  const connected = account.value;
  if (connected === null) throw new Error("The page is not connected.");
  return connected.client;
}

/** The key that the vendor's emulator publishes. A server that only this machine can reach accepts it by default. */
const EMULATOR_KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/** Whether this page came from this machine, where the emulator's key may open the account. */
export function isLocal(): boolean {
  return ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
}

/** Connects with the emulator's key. */
export async function connectLocally(): Promise<void> {
  try {
    await connect(EMULATOR_KEY, "session");
  } catch (problem) {
    throw new Error(`${describe(problem)} Enter the account's key.`);
  }
}

export type Keep = "session" | "browser";

/** Connects with a key, a connection string or a token; the promise fails with a message for the person. */
export async function connect(input: string, keep: Keep): Promise<void> {
  const key = isToken(input) ? input.trim() : readKey(input);
  const candidate = new Client(endpoint(), await credentialFor(key), logRequest);
  const properties = await accountProperties(candidate, isToken(key));
  forget();
  (keep === "browser" ? localStorage : sessionStorage).setItem(STORED_KEY, key);
  const policy = properties.userConsistencyPolicy as JsonObject | undefined;
  account.value = {
    client: candidate,
    name: String(properties.id),
    consistency: String(policy?.defaultConsistencyLevel ?? ""),
  };
}

async function accountProperties(candidate: Client, hasToken: boolean): Promise<JsonObject> {
  try {
    return (await candidate.json({ method: "GET", segments: [] })) as JsonObject;
  } catch (error) {
    if (error instanceof Problem && error.status === 401 && !hasToken) {
      throw new Error("The server does not accept this key. It prints its key when it starts.");
    }
    throw new Error(describe(error));
  }
}

export function hasKeptKey(): boolean {
  return (sessionStorage.getItem(STORED_KEY) ?? localStorage.getItem(STORED_KEY)) !== null;
}

/** Tries the key that was kept, if there is one. */
export async function resume(): Promise<void> {
  const kept = sessionStorage.getItem(STORED_KEY);
  const key = kept ?? localStorage.getItem(STORED_KEY);
  try {
    if (key !== null) await connect(key, kept !== null ? "session" : "browser");
  } catch {
    // The account has another key now; the connect screen asks for it.
    forget();
  } finally {
    isStarting.value = false;
  }
}

/** What an application connects with: this endpoint and the key that this page uses. A token is a person's own. */
export function connectionString(): string {
  const key = sessionStorage.getItem(STORED_KEY) ?? localStorage.getItem(STORED_KEY) ?? "";
  if (isToken(key)) return `AccountEndpoint=${endpoint()};`;
  return `AccountEndpoint=${endpoint()};AccountKey=${key};`;
}

export function disconnect(): void {
  forget();
  account.value = null;
  requests.value = [];
  chargeTotal.value = 0;
}

function forget(): void {
  sessionStorage.removeItem(STORED_KEY);
  localStorage.removeItem(STORED_KEY);
}
