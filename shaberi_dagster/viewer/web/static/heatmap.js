// All scores of the file, read from the Parquet inside of it: a run a line, a question a column.
"use strict";

(async () => {
  const section = document.querySelector("#scores");
  const binary = atob(document.querySelector("#parquet").textContent);
  const file = Uint8Array.from(binary, (letter) => letter.charCodeAt(0)).buffer;
  const rows = await hyparquet.parquetReadObjects({ file });
  const [canvas, output] = [section.querySelector("canvas"), section.querySelector("output")];
  const { judge: judges, set: sets } = section.querySelector("form").elements;
  const share = (row, at) => (row.scores[at] - row.lowest) / (row.highest - row.lowest || 1);
  const mean = (scores) => scores.reduce((sum, score) => sum + score, 0) / scores.length;
  let shown = [];
  let [width, height] = [0, 0];

  function fill(select, values, wanted) {
    select.replaceChildren(...values.map((value) => new Option(value, value, false, value === wanted)));
  }

  function colours() {
    const probe = section.appendChild(document.createElement("i"));
    const found = [...Array(10).keys()].map((shade) => {
      probe.className = `s${shade}`;
      return getComputedStyle(probe).backgroundColor;
    });
    probe.remove();
    return found;
  }

  function draw() {
    fill(sets, [...new Set(rows.filter((row) => row.judge === judges.value).map((row) => row.question_set))], sets.value);
    shown = rows
      .filter((row) => row.judge === judges.value && row.question_set === sets.value)
      .sort((a, b) => mean(b.scores) - mean(a.scores));
    const n = Math.max(...shown.map((row) => row.positions[row.positions.length - 1]));
    height = shown.length > 60 ? 4 : 14;
    width = Math.max(Math.floor((section.clientWidth - 8) / n), 2);
    canvas.width = n * width;
    canvas.height = shown.length * height;
    const context = canvas.getContext("2d");
    const palette = colours();
    shown.forEach((row, line) =>
      row.positions.forEach((position, at) => {
        context.fillStyle = palette[Math.min(Math.max(Math.round(9 * share(row, at)), 0), 9)];
        context.fillRect((position - 1) * width, line * height, width, height);
      }),
    );
    output.textContent = `${shown.length} runs, ${n} questions`;
    section.dataset.drawn = `${shown.length}`;
  }

  canvas.addEventListener("mousemove", (event) => {
    const row = shown[Math.floor(event.offsetY / height)];
    const position = Math.floor(event.offsetX / width) + 1;
    const at = row ? row.positions.indexOf(position) : -1;
    if (at >= 0) output.textContent = `${row.model} ${row.run_tag}: question ${position} of ${row.question_set}, ${row.scores[at].toFixed(2)}`;
  });
  fill(judges, [...new Set(rows.map((row) => row.judge))]);
  section.addEventListener("change", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
})();
