"use strict";

// Which rows are shown, and in which order. Nothing here touches the page.
const rules = {
  howToFilter: "a number, a comparison or a range: 5, < 5, >= 2, 2..4",

  // A condition on numbers: "> 5", "<= -9", "2..5", "= 3"; null if it cannot be read.
  condition(text) {
    const number = String.raw`[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?`;
    const range = new RegExp(`^(${number})\\s*(?:\\.\\.|to)\\s*(${number})$`).exec(text);
    if (range) {
      const [low, high] = [Number(range[1]), Number(range[2])].sort((a, b) => a - b);
      return (value) => value !== null && value >= low && value <= high;
    }
    const match = new RegExp(`^(<=|>=|<|>|=)?\\s*(${number})$`).exec(text);
    if (!match) return null;
    const bound = Number(match[2]);
    const tests = {
      "<": (value) => value < bound,
      ">": (value) => value > bound,
      "<=": (value) => value <= bound,
      ">=": (value) => value >= bound,
      "=": (value) => value === bound,
    };
    const test = tests[match[1] || "="];
    return (value) => value !== null && test(value);
  },

  // Whether a row has all words of a search, in any of its texts.
  has(row, words) {
    const text = row.map((value) => (typeof value === "string" ? value : "")).join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  },

  // Indices of the rows that pass a search, the filters by column, and a scaffold.
  chosen(rows, columns, search, filters, scaffold, scaffoldColumn) {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const tests = [];
    const wrong = [];
    for (const [at, filter] of Object.entries(filters)) {
      const text = filter.trim();
      if (!text) continue;
      if (columns[at].kind === "number") {
        const test = rules.condition(text);
        if (test) tests.push((row) => test(row[at]));
        else wrong.push(Number(at));
      } else {
        const lower = text.toLowerCase();
        tests.push((row) => String(row[at] ?? "").toLowerCase().includes(lower));
      }
    }
    if (scaffold !== null) tests.push((row) => row[scaffoldColumn] === scaffold);
    const shown = [];
    rows.forEach((row, index) => {
      if (tests.every((test) => test(row)) && rules.has(row, words)) shown.push(index);
    });
    return { shown, wrong };
  },

  // Indices sorted by a column; ties keep their order, and empty values come last either way.
  sorted(indices, rows, at, descending) {
    const sign = descending ? -1 : 1;
    const empty = (value) => value === null || value === "";
    return [...indices].sort((a, b) => {
      const [x, y] = [rows[a][at], rows[b][at]];
      if (empty(x) || empty(y)) return Number(empty(x)) - Number(empty(y)) || a - b;
      const order = typeof x === "number" ? x - y : x.localeCompare(y, "en", { numeric: true });
      return order ? sign * order : a - b;
    });
  },

  // Numbers of values in equal bins from low to high.
  histogram(values, low, high, bins) {
    const counts = new Array(bins).fill(0);
    for (const value of values) {
      if (value === null) continue;
      const at = high > low ? Math.floor(((value - low) / (high - low)) * bins) : 0;
      counts[Math.min(bins - 1, Math.max(0, at))] += 1;
    }
    return counts;
  },

  // As daskrf.tables.spreadsheets: an apostrophe stands before what a spreadsheet would run.
  harmless(text) {
    const plain =
      /^(?:[+-]?(?:\d+(?:[.,]\d*)*|[.,]\d+)(?:[eE][+-]?\d+)?%?|[-+=]|[<>]?=[<>]?'?|'[<>]?=[<>]?')$/;
    return /^'*[=+\-@\t\r]/.test(text) && !plain.test(text) ? `'${text}` : text;
  },

  csv(columns, rows, indices) {
    const field = (value) => {
      const text = value === null ? "" : rules.harmless(String(value));
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const lines = [columns.map((column) => field(column.name)).join(",")];
    for (const index of indices) lines.push(rows[index].map(field).join(","));
    return lines.join("\n") + "\n";
  },

  shown(value) {
    if (value === null) return "";
    if (typeof value !== "number" || Number.isInteger(value)) return String(value);
    const size = Math.abs(value);
    return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : value.toFixed(size >= 100 ? 1 : 3);
  },
};

const page = {
  height: 152, // pixels of a row

  start(data) {
    page.data = data;
    page.columns = data.columns;
    page.rows = data.rows;
    page.names = Object.fromEntries(data.columns.map((column, at) => [column.name, at]));
    page.state = { search: "", filters: {}, scaffold: null, sort: null, descending: false };
    page.drawn = new Map();
    page.cells = page.planned();
    page.range = page.meanRange();
    page.headings();
    page.scaffolds();
    const box = document.getElementById("table");
    box.addEventListener("scroll", () => page.draw());
    window.addEventListener("resize", () => page.draw());
    document.getElementById("search").addEventListener("input", (event) => {
      page.state.search = event.target.value;
      page.update();
    });
    document.getElementById("clear").addEventListener("click", () => page.clear());
    document.getElementById("save").addEventListener("click", () => page.save());
    page.update();
  },

  // The cells of the table: a cell with a drawing combines several columns.
  planned() {
    const has = (name) => page.names[name] !== undefined;
    const taken = new Set(["smiles"]);
    const cells = [];
    const add = (kind, name, label, others) => {
      if (!has(name)) return;
      [name, ...others].forEach((each) => taken.add(each));
      cells.push({ kind, at: page.names[name], name, label });
    };
    add("plain", "rank", "rank", []);
    add("molecule", "id", "molecule", []);
    const bars = ["std_y", "std"].filter(has).slice(0, 1);
    add(bars.length ? "bar" : "plain", "mean", page.data.mean, []);
    add("neighbour", "similarity_to_labelled", "nearest labelled molecule", ["nearest_labelled", "its_label"]);
    add("neighbour", "similarity_to_active", "nearest active", ["nearest_active", "its_id"]);
    for (const name of ["weight", "logp", "tpsa"]) add("plain", name, page.columns[page.names[name]]?.label, []);
    add("origin", "source", "from", ["line", "row"].filter(has));
    const origin = has("source") ? cells.pop() : null; // it comes last
    page.columns.forEach((column, at) => {
      if (!taken.has(column.name)) cells.push({ kind: "plain", at, name: column.name, label: column.label });
    });
    if (origin) cells.push(origin);
    return cells;
  },

  meanRange() {
    const [mean, std] = [page.names.mean, page.names.std_y ?? page.names.std];
    if (mean === undefined) return [0, 1];
    let [low, high] = [Infinity, -Infinity];
    for (const row of page.rows) {
      if (row[mean] === null) continue;
      const spread = std === undefined ? 0 : page.data.factor * row[std];
      low = Math.min(low, row[mean] - spread);
      high = Math.max(high, row[mean] + spread);
    }
    if (low > high) return [0, 1];
    return high > low ? [low, high] : [low - 1, low + 1];
  },

  make(tag, attributes = {}, text = null) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== null) made.textContent = text;
    return made;
  },

  headings() {
    const line = document.getElementById("headings");
    for (const cell of page.cells) {
      const heading = page.make("th", { scope: "col", "data-name": cell.name });
      const button = page.make("button", { type: "button", title: "Sort" }, cell.label);
      button.addEventListener("click", () => page.sort(cell.at));
      const kind = page.columns[cell.at].kind;
      const hint = kind === "number" ? "< 5, 2..4" : "contains";
      const input = page.make("input", { placeholder: hint, "aria-label": `filter ${cell.label}` });
      input.setAttribute("title", kind === "number" ? rules.howToFilter : "text to look for");
      input.addEventListener("input", () => {
        page.state.filters[cell.at] = input.value;
        page.update();
      });
      heading.append(button, input);
      line.append(heading);
    }
  },

  sort(at) {
    const state = page.state;
    state.descending = state.sort === at ? !state.descending : false;
    state.sort = at;
    page.update();
  },

  clear() {
    page.state = { search: "", filters: {}, scaffold: null, sort: null, descending: false };
    document.querySelectorAll("#headings input, #search").forEach((input) => { input.value = ""; });
    page.update();
  },

  update() {
    const state = page.state;
    const chosen = rules.chosen(
      page.rows, page.columns, state.search, state.filters, state.scaffold, page.names.scaffold);
    page.shown = state.sort === null
      ? chosen.shown : rules.sorted(chosen.shown, page.rows, state.sort, state.descending);
    const n = (count) => count.toLocaleString("en");
    document.getElementById("count").textContent =
      `${n(page.shown.length)} of ${n(page.rows.length)} molecules`;
    const ignored = page.cells.filter((cell) => chosen.wrong.includes(cell.at));
    document.getElementById("wrong").textContent = ignored.map((cell) =>
      `The filter "${state.filters[cell.at].trim()}" of "${cell.label}" is ignored: write ${rules.howToFilter}.`
    ).join(" ");
    document.querySelectorAll("#headings th").forEach((heading, k) => {
      const at = page.cells[k].at;
      const order = state.descending ? "descending" : "ascending";
      heading.setAttribute("aria-sort", state.sort === at ? order : "none");
      const arrow = state.sort === at ? (state.descending ? " \u25bc" : " \u25b2") : "";
      heading.querySelector("button").textContent = page.cells[k].label + arrow;
      heading.querySelector("input").classList.toggle("wrong", chosen.wrong.includes(at));
    });
    document.querySelectorAll(".scaffold").forEach((button) => {
      button.setAttribute("aria-pressed", String(button.dataset.smiles === state.scaffold));
    });
    document.getElementById("table").scrollTop = 0;
    page.histograms();
    page.draw();
  },

  // Draw the rows in view; the rest is empty space above and below.
  draw() {
    const box = document.getElementById("table");
    const first = Math.max(0, Math.floor(box.scrollTop / page.height) - 3);
    const last = Math.min(page.shown.length, first + Math.ceil(box.clientHeight / page.height) + 7);
    const body = document.getElementById("rows");
    const space = (rows) => {
      const line = page.make("tr");
      line.append(page.make("td", { colspan: page.cells.length, style: `padding:0;height:${rows * page.height}px` }));
      return line;
    };
    const lines = page.shown.slice(first, last).map((index) => page.line(index));
    body.replaceChildren(space(first), ...lines, space(page.shown.length - last));
  },

  line(index) {
    const row = page.rows[index];
    const line = page.make("tr", { class: "molecule", "data-index": index });
    for (const cell of page.cells) line.append(page.cell(cell, row, index));
    return line;
  },

  cell(cell, row, index) {
    const value = row[cell.at];
    if (cell.kind === "molecule") {
      const box = page.make("td", { class: "structure" });
      page.picture(box, page.data.drawing[index]);
      box.append(page.make("div", { class: "name", title: row[page.names.smiles] }, value));
      return box;
    }
    if (cell.kind === "neighbour") {
      const active = cell.name === "similarity_to_active";
      const box = page.make("td", { class: "structure" });
      page.picture(box, page.data[active ? "actives" : "neighbours"][index]);
      const name = row[page.names[active ? "its_id" : "its_label"]];
      const smiles = row[page.names[active ? "nearest_active" : "nearest_labelled"]];
      const words = [active ? name : name && `label ${name}`, `similarity ${rules.shown(value)}`];
      box.append(page.make("div", { class: "name", title: smiles }, words.filter(Boolean).join(", ")));
      return box;
    }
    if (cell.kind === "origin") {
      const line = row[page.names.line] ?? null;
      const box = page.make("td", { class: "text" });
      box.append(page.make("div", {}, line === null ? rules.shown(value) : `${rules.shown(value)}, line ${line}`));
      return box;
    }
    if (cell.kind === "bar" && value !== null) {
      const box = page.make("td", { class: "number" });
      const std = row[page.names.std_y ?? page.names.std];
      box.append(page.make("div", {}, `${rules.shown(value)} \u00b1 ${rules.shown(std)}`), page.bar(value, std));
      return box;
    }
    if (page.columns[cell.at].kind === "number") return page.make("td", { class: "number" }, rules.shown(value));
    const box = page.make("td", { class: "text" });
    box.append(page.make("div", {}, rules.shown(value)));
    return box;
  },

  // A mean with its 95 % interval, on the scale of all molecules of the page.
  bar(mean, std) {
    const [low, high] = page.range;
    const x = (value) => (4 + (112 * (value - low)) / (high - low)).toFixed(1);
    const [from, to, at] = [x(mean - page.data.factor * std), x(mean + page.data.factor * std), x(mean)];
    return page.svg(120, 16,
      `<line x1="4" x2="116" y1="8" y2="8" stroke="#d8dde3"/>` +
      `<line x1="${from}" x2="${to}" y1="8" y2="8" stroke="#1f5fa8" stroke-width="2"/>` +
      `<circle cx="${at}" cy="8" r="3.5" fill="#1f5fa8"/>`, "error");
  },

  svg(width, height, content, name = "") {
    const holder = page.make("div");
    holder.innerHTML =
      `<svg class="${name}" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">${content}</svg>`;
    return holder.firstChild;
  },

  // Put a drawing into a box as soon as its packet is unpacked.
  picture(box, number) {
    const holder = page.make("div");
    box.append(holder);
    if (number === null || number < 0) return;
    const per = page.data.packet;
    const packet = Math.floor(number / per);
    if (!page.drawn.has(packet)) page.drawn.set(packet, page.unpack(packet));
    page.drawn.get(packet).then((drawings) => { holder.innerHTML = drawings[number % per]; });
  },

  async unpack(packet) {
    const text = document.getElementById(`drawings-${packet}`).textContent;
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  },

  histograms() {
    const box = document.getElementById("histograms");
    const figures = [];
    for (const name of ["mean", "weight", "logp", "tpsa", "similarity_to_labelled", "similarity_to_active"]) {
      const at = page.names[name];
      if (at === undefined) continue;
      const values = page.rows.map((row) => row[at]).filter((value) => value !== null);
      if (!values.length) continue;
      const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
      const all = rules.histogram(values, low, high, 24);
      const some = rules.histogram(page.shown.map((index) => page.rows[index][at]), low, high, 24);
      const top = Math.max(...all);
      const bars = (counts, color) => counts.map((count, k) => {
        const height = (60 * count) / top;
        return `<rect x="${4 + k * 8}" y="${64 - height}" width="7" height="${height}" fill="${color}"/>`;
      }).join("");
      const figure = page.make("figure", { "data-name": name });
      figure.append(page.svg(200, 66, bars(all, "#d8dde3") + bars(some, "#1f5fa8")));
      const label = name === "mean" ? page.data.mean : page.columns[at].label;
      figure.append(page.make("figcaption", {}, `${label}: ${rules.shown(low)} to ${rules.shown(high)}`));
      figures.push(figure);
    }
    box.replaceChildren(...figures);
  },

  scaffolds() {
    const box = document.getElementById("scaffolds");
    for (const [smiles, count, number] of page.data.scaffolds) {
      const button = page.make("button", {
        type: "button", class: "scaffold", "aria-pressed": "false", title: smiles || "no rings" });
      button.dataset.smiles = smiles;
      page.picture(button, number);
      const words = `${count.toLocaleString("en")} molecule${count === 1 ? "" : "s"}`;
      button.append(page.make("div", {}, smiles ? words : `${words} without rings`));
      button.addEventListener("click", () => {
        page.state.scaffold = page.state.scaffold === smiles ? null : smiles;
        page.update();
      });
      box.append(button);
    }
  },

  save() {
    const text = rules.csv(page.columns, page.rows, page.shown);
    const link = page.make("a", { download: "molecules.csv" });
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  },
};

if (typeof document !== "undefined") {
  page.start(JSON.parse(document.getElementById("data").textContent));
}
