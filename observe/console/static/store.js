// The tables of the broker as the stream tells them, and the stream itself. Nothing here touches the page.

export const TABLES = ["broker", "transactions", "partitions", "groups", "ends", "events", "samples"];
const POLL_MS = 5000;

/** Apply one frame to tables (name to Map by key). Pure but for the maps. */
export function apply(tables, frame) {
  for (const [name, change] of Object.entries(frame.tables)) {
    const table = tables[name];
    if (!table) continue;
    if (change.reset) table.clear();
    for (const key of change.gone ?? []) table.delete(key);
    for (const row of change.rows ?? []) table.set(row.key, row);
  }
}

export class Store {
  constructor() {
    this.tables = Object.fromEntries(TABLES.map((name) => [name, new Map()]));
    /** Counts frames: whoever has derived something from the tables knows when it is old. */
    this.version = 0;
    this.versions = Object.fromEntries(TABLES.map((name) => [name, 0]));
    this.state = "connecting"; // connecting, live, lost, polling, token
    this.tokenName = "the token"; // as it is told where one is needed
    this.skewMs = 0;
    this.lostAt = 0; // when the broker was last heard of, by this machine's clock; 0 while it is
    this.last = "";
    this.listeners = new Set();
    this.source = null;
    this.timer = null;
    this.isPolling = false;
  }

  /** The broker's time: its clock counts, not this machine's. */
  now() {
    return (this.lostAt || Date.now()) + this.skewMs;
  }

  /** What the page shows is from then on the past: clocks stand still until the broker is back. */
  lose() {
    this.state = "lost";
    this.lostAt ||= Date.now();
  }

  get broker() {
    return this.tables.broker.get("broker");
  }

  told() {
    for (const listener of this.listeners) listener();
  }

  take(frame) {
    apply(this.tables, frame);
    this.skewMs = frame.now_ms - Date.now();
    this.lostAt = 0;
    this.version += 1;
    for (const name of Object.keys(frame.tables)) this.versions[name] = this.version;
  }

  open() {
    this.close();
    const once = this.isPolling ? "once&" : "";
    const source = new EventSource(`/api/v1/stream?${once}last=${encodeURIComponent(this.last)}`);
    this.source = source;
    source.onmessage = (event) => {
      this.take(JSON.parse(event.data));
      if (event.lastEventId) this.last = event.lastEventId;
      this.state = this.isPolling ? "polling" : "live";
      this.told();
    };
    source.onopen = () => {
      this.state = this.isPolling ? "polling" : "live";
      this.told();
    };
    source.addEventListener("crowded", () => {
      this.isPolling = true;
      this.again(POLL_MS);
    });
    source.onerror = () => {
      if (this.isPolling) return this.again(POLL_MS);
      if (source.readyState === EventSource.CLOSED) this.refused();
      else {
        this.lose(); // the browser tries again by itself
        this.told();
      }
    };
  }

  again(afterMs) {
    this.close();
    this.timer = setTimeout(() => this.open(), afterMs);
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  /** The stream was refused: for want of a token, or something else. */
  async refused() {
    this.close();
    this.lose();
    try {
      const answer = await fetch("/api/v1/stream?once&watch=broker");
      if (answer.status === 401) {
        this.tokenName = (await answer.json()).token ?? this.tokenName;
        this.state = "token";
      } else await answer.body?.cancel();
    } catch { /* no broker there */ }
    if (this.state !== "token") this.again(1000);
    this.told();
  }

  /** Trade the token for a session's cookie; whether it was the right one. */
  async signIn(token) {
    const answer = await fetch("/api/v1/session", {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: "{}",
    });
    if (!answer.ok) return false;
    this.open();
    return true;
  }
}
