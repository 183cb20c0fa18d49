// Server-Timing as bars, one wire above the other, and the spread of repeated runs.
import { WIRES, h, ms, svg, table } from "./dom.js";

const COLOURS = { queue: 10, receive: 7, load: 11, signature: 8, wait: 9, decode: 1, preprocess: 2, encode: 3, predict: 5, decode_response: 4, postprocess: 6, handler: 12, other: 0 };

const fixed = (value) => value.toFixed(2).replace(/^-(?=0\.00$)/, "");

// "decode;dur=2.8, total;dur=28" as {stages: [[name, ms]], total}
export function parseTiming(header) {
  const stages = header.split(",").map((part) => part.trim().split(";")).filter((pair) => pair.some((word) => word.trim().startsWith("dur=")))
    .map(([name, ...rest]) => [name, Number((rest.find((pair) => pair.trim().startsWith("dur=")) || "dur=0").trim().slice(4))]);
  const total = stages.find(([name]) => name === "total");
  const others = stages.filter(([name]) => name !== "total");
  return { stages: others, total: total ? total[1] : others.reduce((sum, [, value]) => sum + value, 0) };
}

// The difference in words. timings: [{wire, stages, total}]
export function inWords(timings) {
  const [one, other] = timings;
  if (!other) {
    const longest = [...one.stages].sort((a, b) => b[1] - a[1])[0];
    return `${WIRES[one.wire]} took ${ms(one.total)}, most of it in ${longest[0]}: ${ms(longest[1])}.`;
  }
  const [fast, slow] = one.total <= other.total ? [one, other] : [other, one];
  const times = slow.total / Math.max(fast.total, 0.001);
  const of = (timing, stage) => (timing.stages.find(([name]) => name === stage) || ["", 0])[1];
  const names = [...new Set([...fast.stages, ...slow.stages].map(([name]) => name))];
  const gaps = names.map((name) => [name, of(slow, name) - of(fast, name)]).sort((a, b) => b[1] - a[1]);
  return `${WIRES[slow.wire]} took ${ms(slow.total)} and ${WIRES[fast.wire]} ${ms(fast.total)}: ${WIRES[slow.wire]} took `
    + `${ms(slow.total - fast.total)} longer, ${times.toFixed(2)} times as long. The stage that differs most is ${gaps[0][0]}, with ${ms(gaps[0][1])} more.`;
}

export function bars(timings) {
  const longest = Math.max(...timings.map((timing) => timing.total), 0.001);
  const names = Object.keys(COLOURS).filter((name) => timings.some((timing) => timing.stages.some(([stage]) => stage === name)));
  timings.forEach((timing) => timing.stages.forEach(([name]) => names.includes(name) || names.push(name)));
  const colour = (name) => `s${COLOURS[name] ?? 0}`;
  const drawn = timings.map((timing) => {
    let from = 0;
    const parts = names.flatMap((name) => {
      const stage = timing.stages.find(([found]) => found === name);
      if (!stage) return [];
      const part = svg("rect", { class: colour(name), "data-stage": name, x: `${(100 * from) / longest}%`, width: `${(100 * stage[1]) / longest}%`, height: "26" },
        svg("title", {}, `${name}: ${ms(stage[1])}`));
      from += stage[1];
      return [part];
    });
    const label = `${WIRES[timing.wire]}: ${ms(timing.total)} in ${parts.length} stages; the table below has each of them.`;
    return h("div", { "data-bar": timing.wire }, h("div", { class: `wire ${timing.wire}` }, h("span", {}, WIRES[timing.wire]), h("strong", { class: "n" }, ms(timing.total))),
      svg("svg", { class: "bar", role: "img", "aria-label": label }, svg("rect", { class: "track", width: "100%", height: "26" }), ...parts));
  });
  const cells = (value) => timings.map((timing) => {
    const found = value(timing);
    return found === undefined ? "–" : fixed(found);
  });
  const row = (name, heading, value) => {
    const found = timings.map(value);
    const gap = timings.length > 1 ? [fixed((found[1] ?? 0) - (found[0] ?? 0))] : [];
    return [heading, ...cells(value), ...gap];
  };
  const rows = names.map((name) => row(name, h("span", {}, h("span", { class: `key ${colour(name)}`, "aria-hidden": "true" }), name),
    (timing) => (timing.stages.find(([stage]) => stage === name) || [])[1]));
  rows.push(row("total", h("strong", {}, "total"), (timing) => timing.total));
  rows.push(row("browser", "as the browser sees it", (timing) => timing.seconds * 1000));
  const wires = timings.map((timing) => `${WIRES[timing.wire]}, ms`);
  const gap = timings.length > 1 ? [`${WIRES[timings[1].wire]} − ${WIRES[timings[0].wire]}, ms`] : [];
  return [...drawn, h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Stages" },
    table("Stages of Server-Timing in milliseconds", ["Stage", ...wires, ...gap], rows, [1, 2, 3]))];
}

// [least, quarter, median, three quarters, most]
export function quartiles(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const at = share * (sorted.length - 1);
    const low = Math.floor(at);
    return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
  });
}

export function spreadWords(series) {
  return series.map(({ wire, totals }) => {
    const [least, low, middle, high, most] = quartiles(totals);
    return `${WIRES[wire]}: median of ${totals.length} runs ${ms(middle)}, middle half ${ms(low)} to ${ms(high)}, all ${ms(least)} to ${ms(most)}.`;
  }).join(" ");
}

export function spread(series) {
  const longest = Math.max(...series.flatMap(({ totals }) => totals), 0.001) * 1.02;
  const at = (value) => `${(100 * value) / longest}%`;
  const drawn = series.map(({ wire, totals }) => {
    const [, low, middle, high] = quartiles(totals);
    return h("div", {}, h("div", { class: `wire ${wire}` }, h("span", {}, WIRES[wire]), h("strong", { class: "n" }, `median ${ms(middle)}`)),
      svg("svg", { class: `spread ${wire}`, role: "img", "aria-label": spreadWords([{ wire, totals }]), "data-spread": wire },
        svg("rect", { class: "half", x: at(low), y: "4", width: at(Math.max(high - low, 0)), height: "48" }),
        ...totals.map((value, run) => svg("circle", { class: "dot", cx: at(value), cy: 12 + (run % 5) * 8, r: 4 }, svg("title", {}, ms(value)))),
        svg("line", { class: "middle", x1: at(middle), x2: at(middle), y1: "2", y2: "54" })));
  });
  return [...drawn, h("p", { class: "small" }, `Scale: 0 to ${ms(longest)}, the total of Server-Timing. Dots are runs, the box is the middle half, the line the median.`)];
}
