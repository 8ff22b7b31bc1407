// Where each batch of a log stands on the picture. Pure: an answer and a size in, shapes out.

const LANES = 10;
const LANE = 34;
const TOP = 30;
const LEAST = 2;
const PIN = 22;

export const laneName = (answer, lane) =>
  lane.producer < 0 ? "no transaction" : lane.isRest ? "other producers" : (answer.producers[lane.producer] ?? `producer ${lane.producer}`);

/** Lanes in the order in which their first batch comes; beyond LANES producers share the last one. */
function lanesOf(batches) {
  const lanes = new Map();
  for (const batch of batches) {
    const key = batch.outcome === undefined || batch.outcome === "plain" || (batch.producer_id ?? -1) < 0 ? -1 : batch.producer_id;
    if (!lanes.has(key)) lanes.set(key, { producer: key, batches: [], isRest: false });
    lanes.get(key).batches.push(batch);
  }
  const found = [...lanes.values()];
  if (found.length <= LANES) return found;
  const rest = { producer: found[LANES - 1].producer, isRest: true, batches: found.slice(LANES - 1).flatMap((each) => each.batches) };
  return [...found.slice(0, LANES - 1), rest];
}

/** Batches of one producer from the first of a transaction to its marker: {first, marker, batches}. */
export function transactionsOf(batches) {
  const open = new Map();
  const found = [];
  for (const batch of batches) {
    const id = batch.producer_id ?? -1;
    if (id < 0 || !batch.outcome || batch.outcome === "plain") continue;
    if (batch.marker === "COMMIT" || batch.marker === "ABORT") {
      const begun = open.get(id) ?? { producer: id, first: batch, batches: [] };
      open.delete(id);
      found.push({ ...begun, marker: batch, batches: [...begun.batches, batch] });
      continue;
    }
    if (!open.has(id)) open.set(id, { producer: id, first: batch, marker: null, batches: [] });
    open.get(id).batches.push(batch);
  }
  return [...found, ...open.values()].sort((one, other) => one.first.base_offset - other.first.base_offset);
}

export function gapsOf(batches) {
  const gaps = [];
  for (let index = 1; index < batches.length; index += 1) {
    const from = batches[index - 1].last_offset + 1;
    if (batches[index].base_offset > from) gaps.push({ first: from, last: batches[index].base_offset - 1 });
  }
  return gaps;
}

/** All shapes of a picture that is `width` wide: {height, x(offset), lanes, boxes, flags, threads, gaps, bins, lines, shade, pins}. */
export function layout(answer, first, end, width) {
  const span = Math.max(1, end - first);
  const x = (offset) => ((offset - first) / span) * width;
  const lines = [
    ["log start", answer.log_start], ["LSO", answer.last_stable], ["HW", answer.high_watermark], ["log end", answer.log_end],
  ].filter(([, offset]) => offset >= first && offset <= end).map(([name, offset]) => ({ name, offset, x: x(offset) }));
  const shade = answer.high_watermark > answer.last_stable && answer.last_stable < end
    ? { x: x(Math.max(first, answer.last_stable)), width: x(Math.min(end, answer.high_watermark)) - x(Math.max(first, answer.last_stable)) } : null;
  const pins = answer.groups.filter((each) => each.committed >= first && each.committed <= end).map((each) => ({ ...each, x: x(each.committed) }));
  const foot = pins.length ? PIN : 0;
  const common = { x, lines, shade, pins };
  if (answer.bins.length) return { ...common, height: TOP + 4 * LANE + foot, lanes: [], boxes: [], flags: [], threads: [], gaps: [], bins: binsOf(answer.bins, x) };
  const boxes = [];
  const flags = [];
  const threads = [];
  const lanes = lanesOf(answer.batches).map((lane, index) => {
    const base = TOP + (index + 1) * LANE - 6;
    for (const batch of lane.batches) {
      const left = x(batch.base_offset);
      const box = { batch, x: left, width: Math.max(LEAST, x(batch.last_offset + 1) - left - 0.5), y: base, height: 0 };
      if (batch.marker) flags.push({ ...box, letter: batch.marker === "COMMIT" ? "C" : batch.marker === "ABORT" ? "A" : "•" });
      else {
        box.height = Math.min(LANE - 10, 6 + 2.2 * Math.log2(1 + batch.size / 100));
        boxes.push(box);
      }
    }
    if (lane.producer >= 0 && !lane.isRest) {
      for (const each of transactionsOf(lane.batches)) {
        if (each.batches.length > 1) threads.push({ x: x(each.first.base_offset), to: x(each.batches.at(-1).base_offset), y: base });
      }
    }
    return { ...lane, y: base, name: laneName(answer, lane) };
  });
  const height = TOP + Math.max(1, lanes.length) * LANE + 10 + foot;
  const gaps = gapsOf(answer.batches).map((gap) => ({ x: x(gap.first), to: x(gap.last + 1), y: height - 4 - foot }));
  return { ...common, height, lanes, boxes, flags, threads, gaps, bins: [] };
}

const ORDER = ["plain", "committed", "aborted", "open", "control"];

function binsOf(bins, x) {
  const counts = bins.map((bin) => Object.values(bin.records ?? {}).reduce((sum, each) => sum + each, 0));
  const most = Math.max(1, ...counts);
  return bins.flatMap((bin, index) => {
    let y = TOP + 4 * LANE - 8;
    const room = 4 * LANE - 16;
    return ORDER.filter((outcome) => bin.records?.[outcome]).map((outcome) => {
      const height = Math.max(1, (bin.records[outcome] / Math.max(most, counts[index])) * room);
      y -= height;
      return { outcome, x: x(bin.first), width: Math.max(LEAST, x(bin.next) - x(bin.first) - 0.5), y, height, bin };
    });
  });
}

/** The batch, or the bin, under a point; null where there is none. */
export function under(shapes, px, py) {
  const near = (box) => px >= box.x - 2 && px <= box.x + Math.max(box.width, 6) + 2;
  const flag = shapes.flags.find((each) => near(each) && Math.abs(py - (each.y - 8)) < 14);
  if (flag) return flag.batch;
  const box = shapes.boxes.find((each) => near(each) && py <= each.y + 4 && py >= each.y - LANE + 6);
  if (box) return box.batch;
  return shapes.bins.find((each) => px >= each.x && px <= each.x + each.width)?.bin ?? null;
}
