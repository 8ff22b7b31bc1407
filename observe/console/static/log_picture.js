// Draws a part of a log on a canvas. The table below it has the same content, for everybody who does not look at pictures.

import { Component } from "./vendor/preact.module.js";
import { html } from "./parts.js";
import { layout, under } from "./log_layout.js";

const NAMES = ["--ground", "--raised", "--line", "--text", "--quiet", "--open", "--trouble", "--trouble-ground"];

function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name.slice(2), style.getPropertyValue(name).trim()]));
}

/** Stripes or dots of a colour: outcomes differ by pattern, too. */
function pattern(context, kind, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const on = tile.getContext("2d");
  on.strokeStyle = on.fillStyle = colour;
  if (kind === "open") on.fillRect(0, 0, 2, 2), on.fillRect(3, 3, 2, 2);
  else { on.beginPath(); on.moveTo(-1, 7); on.lineTo(7, -1); on.moveTo(-1, 1); on.lineTo(1, -1); on.moveTo(5, 7); on.lineTo(7, 5); on.stroke(); }
  return context.createPattern(tile, "repeat");
}

function filled(context, box, outcome, paint) {
  const { x, y, width, height } = box;
  context.fillStyle = paint[outcome] ?? paint.plain;
  context.fillRect(x, y, width, height);
  if (outcome === "aborted" || outcome === "open") {
    context.strokeStyle = outcome === "open" ? paint.openEdge : paint.abortedEdge;
    context.setLineDash(outcome === "open" ? [2, 2] : []);
    if (width > 3) context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
    context.setLineDash([]);
  }
}

export class LogPicture extends Component {
  componentDidMount() {
    this.canvas = this.base.querySelector("canvas");
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.base);
    this.draw();
  }

  componentDidUpdate() {
    this.draw();
  }

  componentWillUnmount() {
    this.resized.disconnect();
  }

  draw() {
    const { answer, first, end, chosen } = this.props;
    const width = Math.max(200, this.base.clientWidth);
    const shapes = layout(answer, first, end, width);
    this.shapes = shapes;
    const scale = Math.min(3, globalThis.devicePixelRatio || 1);
    const { canvas } = this;
    canvas.width = width * scale;
    canvas.height = shapes.height * scale;
    canvas.style.height = `${shapes.height}px`;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const colour = colours();
    const paint = {
      plain: colour.quiet, committed: colour.open, control: colour.text, abortedEdge: colour.trouble, openEdge: colour.open,
      aborted: pattern(context, "aborted", colour.trouble), open: pattern(context, "open", colour.open),
    };
    context.font = "12px system-ui, sans-serif";
    if (shapes.shade) {
      context.fillStyle = colour["trouble-ground"];
      context.fillRect(shapes.shade.x, 22, Math.max(1, shapes.shade.width), shapes.height);
    }
    for (const lane of shapes.lanes) {
      context.fillStyle = colour.line;
      context.fillRect(0, lane.y, width, 1);
    }
    context.fillStyle = colour.quiet;
    for (const thread of shapes.threads) context.fillRect(thread.x, thread.y - 3, Math.max(1, thread.to - thread.x), 1.5);
    for (const box of shapes.boxes) filled(context, { ...box, y: box.y - box.height }, box.batch.outcome ?? "plain", paint);
    for (const bin of shapes.bins) filled(context, bin, bin.outcome, paint);
    for (const flag of shapes.flags) {
      context.fillStyle = flag.letter === "A" ? colour.trouble : colour.text;
      context.fillRect(flag.x, flag.y - 22, 1.5, 22);
      context.fillRect(flag.x, flag.y - 22, 13, 13);
      context.fillStyle = colour.ground;
      context.fillText(flag.letter, flag.x + 3, flag.y - 11.5);
    }
    context.strokeStyle = colour.quiet;
    context.setLineDash([3, 3]);
    for (const gap of shapes.gaps) { context.beginPath(); context.moveTo(gap.x, gap.y); context.lineTo(gap.to, gap.y); context.stroke(); }
    context.setLineDash([]);
    const marked = shapes.boxes.concat(shapes.flags).filter((each) => chosen.has(each.batch));
    context.strokeStyle = colour.text;
    context.lineWidth = 2;
    for (const each of marked) context.strokeRect(each.x - 2, each.y - (each.height || 22) - 2, Math.max(each.width, 4) + 4, (each.height || 22) + 4);
    context.lineWidth = 1;
    for (const lane of shapes.lanes) {
      const text = lane.name.length > 60 ? `${lane.name.slice(0, 60)}…` : lane.name;
      context.fillStyle = colour.ground;
      context.globalAlpha = 0.75;
      context.fillRect(2, lane.y - 27, context.measureText(text).width + 4, 14);
      context.globalAlpha = 1;
      context.fillStyle = colour.quiet;
      context.fillText(text, 4, lane.y - 16);
    }
    this.lines(context, shapes, width, colour);
    this.pins(context, shapes, width, colour);
  }

  /** Where groups stand: a pin below the axis, with the name where there is room. */
  pins(context, shapes, width, colour) {
    let right = -Infinity;
    for (const pin of [...shapes.pins].sort((one, other) => one.x - other.x)) {
      const x = Math.min(width - 5, Math.max(5, pin.x));
      const y = shapes.height - 18;
      context.fillStyle = colour.text;
      context.beginPath();
      context.moveTo(x, y - 4);
      context.lineTo(x - 4, y + 4);
      context.lineTo(x + 4, y + 4);
      context.fill();
      const text = pin.group.length > 40 ? `${pin.group.slice(0, 40)}…` : pin.group;
      const wide = context.measureText(text).width;
      const at = Math.max(0, Math.min(x - wide / 2, width - wide - 2));
      if (at > right + 8) { context.fillText(text, at, shapes.height - 2); right = at + wide; }
    }
  }

  lines(context, shapes, width, colour) {
    let right = Infinity;
    for (const line of [...shapes.lines].sort((one, other) => other.x - one.x)) {
      const x = Math.min(width - 1, Math.max(0, line.x));
      context.fillStyle = line.name === "LSO" ? colour.trouble : colour.text;
      context.fillRect(x, 18, 1, shapes.height);
      const text = `${line.name} ${line.offset.toLocaleString("en")}`;
      const wide = context.measureText(text).width;
      const at = Math.max(0, Math.min(x - wide / 2, width - wide - 2, right - wide - 8));
      if (at >= 0 && at + wide <= right) context.fillText(text, at, 13);
      right = at;
    }
  }

  pointed(event, act) {
    const box = this.canvas.getBoundingClientRect();
    act(under(this.shapes, event.clientX - box.left, event.clientY - box.top));
  }

  wheel(event) {
    if (!event.ctrlKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return; // the page scrolls
    event.preventDefault();
    const box = this.canvas.getBoundingClientRect();
    if (event.ctrlKey) this.props.zoom(event.deltaY > 0 ? 2 : 0.5, (event.clientX - box.left) / box.width);
    else this.props.pan(event.deltaX / box.width);
  }

  render({ label, keys, point, open }) {
    return html`<div class="picture" tabindex="0" role="group" aria-label="The log as a picture: plus and minus zoom, arrows move, brackets go from transaction to transaction, Enter opens one, t goes to the table" onKeyDown=${keys} onWheel=${(event) => this.wheel(event)}>
      <canvas role="img" aria-label=${label} onMouseMove=${(event) => this.pointed(event, point)} onMouseLeave=${() => point(null)} onClick=${(event) => this.pointed(event, open)}></canvas></div>`;
  }
}
