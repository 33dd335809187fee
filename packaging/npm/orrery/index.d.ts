export interface StartOptions {
  /** The port to listen on; a free one by default. */
  port?: number;
  /** The folder that holds the data; by default everything is in memory. */
  data?: string;
  /** Further arguments of `orrery serve`. */
  args?: string[];
}

export interface Orrery {
  readonly endpoint: string;
  readonly key: string;
  readonly connectionString: string;
  readonly port: number;
  readonly pid: number;
  /** Stops the server, and waits until it has ended. */
  stop(): Promise<void>;
}

/** Starts a server on this machine and resolves when it is ready. It ends with this process at the latest. */
export function startOrrery(options?: StartOptions): Promise<Orrery>;
