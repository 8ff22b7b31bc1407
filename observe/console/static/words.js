// Numbers and times in words, and what the words mean. Pure.

export const number = (count) => count.toLocaleString("en");

export function duration(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 1) return `${Math.round(Math.max(0, ms))} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 600) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${unit ? bytes.toFixed(1) : bytes} ${units[unit]}`;
}

/** What an answer says of an error, as a sentence. */
export const sentenceOf = (error) => `${error[0].toUpperCase()}${error.slice(1)}.`;

/** A name as a shell takes it. */
export const quoted = (name) => (/^[A-Za-z0-9._:-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);

export const plural = (count, noun, many = `${noun}s`) => `${number(count)} ${count === 1 ? noun : many}`;

/** When the coordinator aborts a transaction; -1 for never. */
export function deadline(row) {
  if (row.state !== "Ongoing" || row.never_times_out || !(row.start_ms >= 0)) return -1;
  return row.start_ms + (row.timeout_ms ?? 0);
}

/** What is left of a transaction's time: words, and the share of it that is used. */
export function countdown(row, now) {
  const at = deadline(row);
  if (at < 0) {
    if (row.never_times_out && row.state === "Ongoing") return { text: "kept until it is decided", share: 0 };
    return { text: row.state?.startsWith("Prepare") ? "markers under way" : "", share: 0 };
  }
  const left = at - now;
  const share = Math.min(1, Math.max(0, 1 - left / Math.max(1, row.timeout_ms)));
  if (left <= 0) return { text: "now due", share: 1 };
  const seconds = left / 1000;
  return { text: `${seconds < 100 ? seconds.toFixed(1) : Math.round(seconds)} s left`, share };
}

/** Rows that need a look come first: what is open by its deadline, then what is decided, then the rest by age. */
export function attention(row) {
  if (row.state === "Ongoing") return deadline(row) < 0 ? 1e15 : deadline(row);
  if (row.state?.startsWith("Prepare")) return 2e15;
  return 1e16 - (row.updated_ms ?? 0);
}

/** A name that does not fill the page. */
export const short = (name) => (name.length <= 48 ? name : `${name.slice(0, 47)}…`);

const WAITED_MS = 10_000;

/** How loud the line of health is: `grave` where nothing can be written or read, `trouble` where readers wait for 10 s or for
 * half of the time that the transaction has; else nothing: short waits are what transactions are. */
export function urgency(broker, held, transactions, now) {
  if (!broker) return "";
  if (broker.is_disk_full || broker.offline) return "grave";
  const waitsLong = (row) => {
    const timeout = transactions.get(row.held_by)?.timeout_ms ?? 0;
    return now - (row.held_since_ms ?? now) >= Math.min(WAITED_MS, timeout > 0 ? timeout / 2 : WAITED_MS);
  };
  return held.some(waitsLong) ? "trouble" : "";
}

/** One line of health. */
export function health(broker, held) {
  if (!broker) return "Nothing is known yet.";
  const parts = [];
  if (broker.is_disk_full) parts.push("the disk is full: records are refused until there is room, readers go on");
  if (broker.offline) parts.push(broker.cluster ? `${plural(broker.offline, "partition")} without a leader` : `${plural(broker.offline, "log")} offline`);
  if (broker.held) parts.push(`committed readers are held back in ${plural(broker.held, "partition")}${held ? `, first by ${short(held)}` : ""}`);
  if (broker.preparing) parts.push(`${plural(broker.preparing, "transaction")} waiting for markers`);
  if (!parts.length) return broker.open ? `${plural(broker.open, "transaction")} open, and nobody waits.` : "Nothing is open, and nobody waits.";
  const text = parts.join("; ");
  return text[0].toUpperCase() + text.slice(1) + ".";
}

export const DURABILITY = {
  fsync: "An acknowledged write is on the disk.",
  os: "An acknowledged write outlives the broker, not a power failure.",
  memory: "Nothing outlives the broker.",
};

/** The disk in words: room, flushes. */
export function diskWords(broker) {
  const parts = [];
  if (broker.total_bytes > 0) parts.push(`${size(broker.free_bytes)} of the disk's ${size(broker.total_bytes)} are free.`);
  if (broker.durability === "fsync") {
    const waiting = broker.unflushed_bytes ? ` ${size(broker.unflushed_bytes)} wait for one.` : "";
    parts.push(broker.flushes ? `${plural(broker.flushes, "flush", "flushes")} in the last minute: half of them took at most ${figure(broker.flush_ms)}, 99 of 100 at most ${figure(broker.flush_slow_ms)}.${waiting}` : `No flush in the last minute.${waiting}`);
  }
  return parts.join(" ");
}

/** Milliseconds that a person can take in. */
export const figure = (ms) => (ms >= 1000 || ms === 0 ? duration(ms) : `${Number(ms.toPrecision(2))} ms`);

export const OUTCOMES = {
  commit: ["C", "committed"], abort: ["A", "aborted"], timeout: ["T", "timed out"], fenced: ["F", "fenced"],
  committed: ["C", "committed"], aborted: ["A", "aborted"], open: ["…", "open"], plain: ["–", "no transaction"], control: ["•", "control"],
  operator: ["O", "ended by an operator"], healed: ["H", "healed"], expired: ["E", "expired"], refused: ["R", "refused"],
};

export const CAUSES = {
  open_transaction: "an open transaction", markers_pending: "markers are outstanding", prepared: "a prepared transaction",
  hanging: "it hangs: no coordinator knows it", unknown: "its coordinator is another broker", offline: "its log is offline",
  disk_full: "the disk is full: records are refused", not_told: "not told without READ on the topic and DESCRIBE on every id",
};

export const TERMS = {
  "log end": "The next offset to be written.",
  "high watermark": "Everything below it is on every replica that has to have it; readers of all records get so far.",
  "LSO": "Last stable offset: everything below it is decided; readers of committed records get so far.",
  "behind": "Offsets between the last stable offset and the high watermark: what such readers wait for.",
  "offsets": "Places between the start and the end of the logs: records, markers, and what compaction has emptied.",
  "open": "Transactions that are not decided yet.",
  "epoch": "A producer's generation: a newer instance of its transactional id has a higher one.",
  "fenced": "Refused, because its epoch is not the newest of its transactional id.",
  "marker": "The record that says in a partition whether a transaction was committed or aborted.",
  "prepared": "Decided, or kept for its database to decide (KIP-939).",
  "in flight": "Records of a share group that its members have and have not acknowledged.",
  "waiting": "Offsets that wait for the end of the transaction that has written them.",
  "record lag": "Records that a group's readers will still get: no control records, no aborted ones.",
  "time left": "Until the coordinator aborts the transaction (transaction.timeout.ms).",
};
