"use strict";
// Volume viewer: decodes a mosaic of all slices to an array and draws planes of it, with window, level and labels.
// An index is (d, h, w) in the displayed grid; voxel centers lie at integers.

const viewers = [];

async function decodeLevels(uri, data, channels) {
  const image = new Image();
  image.src = uri;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width;
  canvas.height = image.height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height).data;
  const [depth, height, width] = data.shape;
  const levels = new Uint8Array(depth * height * width * channels);
  let to = 0;
  for (let d = 0; d < depth; d++) {
    const left = (d % data.columns) * width, top = Math.floor(d / data.columns) * height;
    for (let h = 0; h < height; h++) {
      let from = 4 * ((top + h) * image.width + left);
      for (let w = 0; w < width; w++, from += 4)
        for (let c = 0; c < channels; c++) levels[to++] = pixels[from + c];
    }
  }
  return levels;
}

function toPosition(rows, [d, h, w]) {
  return rows.map((row) => row[0] * d + row[1] * h + row[2] * w + row[3]);
}

function toIndex(rows, place) {  // the inverse of toPosition
  const [a, b, c] = rows, right = rows.map((row, n) => place[n] - row[3]);
  const det = (x, y, z) => x[0] * (y[1] * z[2] - y[2] * z[1]) - x[1] * (y[0] * z[2] - y[2] * z[0])
    + x[2] * (y[0] * z[1] - y[1] * z[0]);
  const whole = det(a, b, c);
  return [0, 1, 2].map((column) => {
    const [x, y, z] = rows.map((row, n) => row.slice(0, 3).map((v, k) => (k === column ? right[n] : v)));
    return det(x, y, z) / whole;
  });
}

class Viewer {
  constructor(section, data) {
    this.section = section;
    this.data = data;
    this.at = data.shape.map((size) => Math.floor(size / 2));
    this.window = [...data.window];
    this.opacity = 0.45;
    this.hidden = new Set();
    this.planes = [...section.querySelectorAll(".plane")].map((figure, number) => ({
      ...data.planes[number],
      figure,
      canvas: figure.querySelector("canvas"),
      slider: figure.querySelector("input"),
      output: figure.querySelector("output"),
    }));
  }

  async start() {
    this.levels = await decodeLevels(this.data.image, this.data, this.data.channels);
    if (this.data.label) {
      this.labels = await decodeLevels(this.data.label, this.data, 1);
      this.colors = this.data.colors.map((c) => [1, 3, 5].map((n) => parseInt(c.slice(n, n + 2), 16)));
    }
    for (const plane of this.planes) this.listen(plane);
    for (const name of ["center", "width"])
      this.section.querySelector(`.${name}`)?.addEventListener("input", () => this.readWindow());
    this.section.querySelector(".reset")?.addEventListener("click", () => {
      this.window = [...this.data.window];
      this.showWindow();
      this.draw();
    });
    this.section.querySelector(".opacity")?.addEventListener("input", (event) => {
      this.opacity = event.target.value / 100;
      this.draw();
    });
    for (const box of this.section.querySelectorAll(".legend input"))
      box.addEventListener("change", () => {
        this.hidden[box.checked ? "delete" : "add"](Number(box.dataset.class));
        this.draw();
      });
    this.showWindow();
    this.draw();
  }

  listen(plane) {
    plane.slider.addEventListener("input", () => this.go(plane.slice, Number(plane.slider.value)));
    const picture = plane.figure.querySelector(".picture");
    const pointed = (event) => {
      if (!(event.buttons & 1)) return;
      const box = picture.getBoundingClientRect();
      const share = (value, size) => Math.min(size - 1, Math.max(0, Math.floor(value * size)));
      const row = share((event.clientY - box.top) / box.height, this.data.shape[plane.row]);
      this.at[plane.column] = share((event.clientX - box.left) / box.width, this.data.shape[plane.column]);
      this.go(plane.row, plane.flip ? this.data.shape[plane.row] - 1 - row : row);
    };
    picture.addEventListener("pointerdown", (event) => { picture.setPointerCapture(event.pointerId); pointed(event); });
    picture.addEventListener("pointermove", pointed);
    picture.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.go(plane.slice, this.at[plane.slice] + Math.sign(event.deltaY));
    }, { passive: false });
  }

  go(axis, index) {
    this.at[axis] = Math.min(this.data.shape[axis] - 1, Math.max(0, index));
    this.draw();
    const group = this.section.dataset.group;
    for (const other of viewers) if (group && other !== this && other.section.dataset.group === group) other.follow(this);
  }

  follow(other) {
    const both = this.data.affine && other.data.affine;
    const place = both
      ? toIndex(this.data.affine, toPosition(other.data.affine, other.at))
      : other.at.map((n, axis) => ((n + 0.5) / other.data.shape[axis]) * this.data.shape[axis] - 0.5);
    this.at = place.map((n, axis) => Math.min(this.data.shape[axis] - 1, Math.max(0, Math.round(n))));
    this.draw();
  }

  readWindow() {
    const [center, width] = ["center", "width"].map((name) => Number(this.section.querySelector(`.${name}`).value));
    if (!(width > 0) || !Number.isFinite(center)) return;
    this.window = [center - width / 2, center + width / 2];
    this.draw();
  }

  showWindow() {
    const [low, high] = this.window, short = (value) => Number(value.toPrecision(6));
    const center = this.section.querySelector(".center");
    if (!center) return;
    center.value = short((low + high) / 2);
    this.section.querySelector(".width").value = short(high - low);
  }

  offset(d, h, w) {
    return (d * this.data.shape[1] + h) * this.data.shape[2] + w;
  }

  draw() {
    const [low, high] = this.window;
    const gray = Uint8Array.from(this.data.values, (v) => Math.min(255, Math.max(0, Math.round((255 * (v - low)) / (high - low)))));
    for (const plane of this.planes) this.drawPlane(plane, gray);
    this.showPosition();
  }

  drawPlane(plane, gray) {
    const { data, at, levels, labels } = this, shape = data.shape;
    const rows = shape[plane.row], columns = shape[plane.column];
    const context = plane.canvas.getContext("2d"), picture = context.createImageData(columns, rows), out = picture.data;
    const index = [...at];
    let to = 0;
    for (let row = 0; row < rows; row++) {
      index[plane.row] = plane.flip ? rows - 1 - row : row;
      for (let column = 0; column < columns; column++, to += 4) {
        index[plane.column] = column;
        const from = this.offset(...index);
        if (data.channels === 1) out[to] = out[to + 1] = out[to + 2] = gray[levels[from]];
        else for (let c = 0; c < 3; c++) out[to + c] = levels[3 * from + c];
        const label = labels ? labels[from] : 0;
        if (label && !this.hidden.has(label))
          for (let c = 0; c < 3; c++)
            out[to + c] = Math.round(out[to + c] * (1 - this.opacity) + this.colors[label - 1][c] * this.opacity);
        out[to + 3] = 255;
      }
    }
    context.putImageData(picture, 0, 0);
    plane.slider.value = at[plane.slice];
    plane.output.value = `${at[plane.slice] + 1} of ${shape[plane.slice]}`;
    const seen = (axis, value) => ((axis === plane.row && plane.flip ? shape[axis] - 1 - value : value) + 0.5) / shape[axis];
    plane.figure.querySelector(".row").style.top = `${100 * seen(plane.row, at[plane.row])}%`;
    plane.figure.querySelector(".column").style.left = `${100 * seen(plane.column, at[plane.column])}%`;
    this.drawMarks(plane, seen);
  }

  drawMarks(plane, seen) {
    const picture = plane.figure.querySelector(".picture");
    for (const old of picture.querySelectorAll(".mark")) old.remove();
    for (const mark of this.data.marks) {
      const here = this.at[plane.slice];
      if (here < mark.low[plane.slice] - 0.5 || here > mark.high[plane.slice] + 0.5) continue;
      const box = document.createElement("i");
      box.className = "mark";
      box.title = mark.name;
      const [x, y] = [plane.column, plane.row].map((axis) => {
        const ends = [seen(axis, mark.low[axis]), seen(axis, mark.high[axis])];
        return [Math.min(...ends), Math.abs(ends[1] - ends[0])];
      });
      Object.assign(box.style, {
        left: `${100 * x[0]}%`, width: `${100 * x[1]}%`, top: `${100 * y[0]}%`, height: `${100 * y[1]}%`,
      });
      picture.append(box);
    }
  }

  showPosition() {
    const { data, at } = this, from = this.offset(...at);
    const value = data.channels === 1
      ? Number(data.values[this.levels[from]].toPrecision(5))
      : [0, 1, 2].map((c) => this.levels[3 * from + c]).join(", ");
    const stored = toPosition(data.stored, at).map((n) => Math.round(n)).join(", ");
    const place = data.affine ? ` · ${toPosition(data.affine, at).map((n) => n.toFixed(1)).join(", ")} mm` : "";
    const label = this.labels && this.labels[from] ? ` · label ${data.classes[this.labels[from] - 1].split(":")[0]}` : "";
    this.section.querySelector(".place").value = `voxel [${stored}]${place} · value ${value}${label}`;
  }
}

async function start() {
  for (const section of document.querySelectorAll("section.volume")) {
    const viewer = new Viewer(section, JSON.parse(section.querySelector("script").textContent));
    try {
      await viewer.start();
      viewers.push(viewer);
    } catch (error) {
      const message = document.createElement("p");
      message.className = "failed";
      message.textContent = `This browser cannot show the volume: ${error}`;
      section.append(message);
    }
  }
  for (const section of document.querySelectorAll("section.frames")) {
    section.querySelector(".opacity")?.addEventListener("input", (event) =>
      section.style.setProperty("--opacity", event.target.value / 100));
    for (const box of section.querySelectorAll(".legend input")) box.disabled = true;
    for (const picture of section.querySelectorAll(".picture"))
      picture.addEventListener("click", () => picture.parentElement.classList.toggle("large"));
  }
  document.body.dataset.ready = "yes";
}

start();
