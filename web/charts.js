// Chart.js, in the page's colours. Figures move without animation: what was there a second ago is not the news.

import {h, uid} from "./dom.js";
import {clock, round} from "./format.js";

const charts = new Set();
const MINUTES = 15;

function color(name) {
	return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function seriesColor(i) {
	return color(`--series-${i % 8}`);
}

function scale(more) {
	return {
		grid: {color: color("--line"), drawBorder: false},
		ticks: {color: color("--dim"), font: {size: 11}, maxRotation: 0, ...more.ticks},
		...Object.fromEntries(Object.entries(more).filter(([k]) => k !== "ticks")),
	};
}

function base(options) {
	return {
		animation: false,
		responsive: true,
		maintainAspectRatio: false,
		normalized: true,
		interaction: {mode: "index", intersect: false},
		...options,
		plugins: {
			legend: {
				display: options.legend !== false, position: "bottom", align: "start",
				labels: {color: color("--text"), boxWidth: 10, boxHeight: 10, font: {size: 12}},
			},
			tooltip: {
				backgroundColor: color("--tip"), titleColor: color("--tip-text"), bodyColor: color("--tip-text"),
				...options.tooltip,
			},
		},
	};
}

/** A figure that holds a chart: `figure.chart` is Chart.js's, until forget(figure). label: for those who do not see
 *  it; say(text) tells them what it shows now. */
function figure(label, height, make) {
	const id = uid("chart");
	const canvas = h("canvas", {role: "img", "aria-label": label, "aria-describedby": id});
	const said = h("figcaption", {id, class: "unseen"});
	const e = h("figure", {class: `chart chart-${height}`}, h("div", {class: "chart-box"}, canvas), said);
	e.build = () => {
		const data = e.chart?.data;
		e.chart?.destroy();
		e.chart = make(canvas, data);
	};
	e.say = (words) => {
		said.textContent = words;
	};
	// Chart.js measures the canvas, which must be in the page by then.
	queueMicrotask(() => {
		if (!e.ended)
			e.build();
		e.onbuild?.();
	});
	charts.add(e);
	return e;
}

export function forget(e) {
	e.ended = true;
	charts.delete(e);
	e.chart?.destroy();
	e.chart = null;
}

/** The theme has changed. */
export function recolor() {
	for (const e of charts) {
		e.build();
		e.again?.();
	}
}

/** Lines over the last fifteen minutes. set([{label, points, color, sum}]). */
export function timeChart(label, format, height = "medium") {
	let lines = [];
	let at = Date.now(); // what is 0 on the axis
	const e = figure(label, height, (canvas) => new window.Chart(canvas, {
		type: "line",
		data: {datasets: []},
		options: base({
			parsing: false,
			spanGaps: false,
			elements: {point: {radius: 0, hitRadius: 6}, line: {borderWidth: 1.75, tension: 0}},
			tooltip: {
				callbacks: {
					title: (items) => items.length ? clock(at + items[0].parsed.x * 60000) : "",
					label: (item) => `${item.dataset.label}: ${format(item.parsed.y)}`,
				},
			},
			scales: {
				x: scale({
					type: "linear", min: -MINUTES, max: 0,
					ticks: {stepSize: 3, callback: (v) => v ? `${v} min` : "now"},
				}),
				y: scale({min: 0, grace: "8%", ticks: {maxTicksLimit: 5, callback: (v) => round(format(v))}, afterFit: (s) => {
					s.width = 78; // so that the plot does not jump as labels grow
				}}),
			},
		}),
	}));
	e.set = (now) => {
		lines = now;
		if (!e.chart)
			return;
		at = Date.now();
		e.chart.data.datasets = now.map((l, i) => ({
			label: l.label, data: l.points.map((p) => ({x: (p.x - at) / 60000, y: p.y})), borderColor: seriesColor(l.color ?? i), backgroundColor: seriesColor(l.color ?? i),
			order: l.sum ? 1 : 0, borderWidth: l.sum ? 1 : 1.75, // a sum lies below its parts
		}));
		e.chart.update();
	};
	e.again = () => e.set(lines);
	e.onbuild = e.again;
	return e;
}

/** Groups of bars, one for each name. set(names, [{label, values}]). */
export function barChart(label, format, {height = "medium", horizontal = false, max, integer = false, axis = ""} = {}) {
	let shown = [[], []];
	const along = horizontal ? "x" : "y";
	const across = horizontal ? "y" : "x";
	const e = figure(label, height, (canvas) => new window.Chart(canvas, {
		type: "bar",
		data: {labels: [], datasets: []},
		options: base({
			indexAxis: horizontal ? "y" : "x",
			tooltip: {callbacks: {label: (item) => `${item.dataset.label}: ${format(item.parsed[along])}`}},
			scales: {
				[along]: scale({min: 0, suggestedMax: max, ticks: {maxTicksLimit: 6, precision: integer ? 0 : undefined,
					callback: (v) => format(v)}}),
				[across]: scale({grid: {display: false}, title: {display: Boolean(axis), text: axis, color: color("--dim")}}),
			},
		}),
	}));
	e.set = (names, groups) => {
		shown = [names, groups];
		if (!e.chart)
			return;
		e.chart.data.labels = names;
		e.chart.data.datasets = groups.map((g, i) => ({
			label: g.label, data: g.values, backgroundColor: seriesColor(g.color ?? i), borderRadius: 2, maxBarThickness: 26,
			categoryPercentage: 0.8, barPercentage: 0.92,
		}));
		e.chart.update();
	};
	e.again = () => e.set(...shown);
	e.onbuild = e.again;
	return e;
}
