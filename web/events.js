// Server-sent events over fetch, since EventSource can send no token. A stream that breaks off, or that is silent for
// longer than the server's comments are apart, is taken up again behind the last event that came.

import {stream} from "./api.js";

const SILENCE_MS = 40000;
const RETRY_MS = [500, 1000, 2000, 5000, 10000];

/** The messages in a text of lines; what is not whole yet is kept for the next piece. */
export class Parser {
	constructor() {
		this.rest = "";
		this.id = null;
		this.message = {event: "message", data: []};
	}

	push(piece, tell) {
		const lines = (this.rest + piece).split(/\r\n|\n|\r/);
		this.rest = lines.pop();
		for (const line of lines)
			this.line(line, tell);
	}

	line(line, tell) {
		if (line === "") {
			if (this.message.data.length)
				tell({event: this.message.event, data: this.message.data.join("\n"), id: this.id});
			this.message = {event: "message", data: []};
			return;
		}
		const at = line.indexOf(":");
		const name = at < 0 ? line : line.slice(0, at);
		const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
		if (name === "id")
			this.id = value;
		else if (name === "event")
			this.message.event = value;
		else if (name === "data")
			this.message.data.push(value);
	}
}

/** Follow the events until stop() is called. tell(kind, event); online(true or false) as the stream comes and goes. */
export function follow(tell, online) {
	let stopped = false;
	let abort = new AbortController();
	let last = null;
	let tries = 0;

	async function once() {
		abort = new AbortController();
		let watchdog = 0;
		const heard = () => {
			clearTimeout(watchdog);
			watchdog = setTimeout(() => abort.abort(), SILENCE_MS);
		};
		heard();
		try {
			const headers = last ? {"Last-Event-ID": last} : {};
			const response = await stream(last ? "/v1/events" : "/v1/events?since=0", {headers, signal: abort.signal});
			const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
			const parser = new Parser();
			online(true);
			for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
				heard();
				tries = 0;
				parser.push(piece.value, (m) => {
					last = m.id ?? last;
					tell(m.event, JSON.parse(m.data));
				});
			}
		} finally {
			clearTimeout(watchdog);
		}
	}

	async function loop() {
		while (!stopped) {
			try {
				await once();
			} catch (e) {
				if (e.status === 400)
					last = null; // an id that the process does not know
				if (e.status === 401)
					break;
			}
			online(false);
			const wait = RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)];
			await new Promise((r) => setTimeout(r, wait * (0.75 + Math.random() / 2)));
		}
	}

	loop();
	return {
		stop() {
			stopped = true;
			abort.abort();
		},
	};
}
