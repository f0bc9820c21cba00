// What share of a VIP's new flows and packets each DIP gets, beside what it should get.

import {samples} from "./state.js";

const WINDOW_MS = 60000;

/** Figures of a DIP as sample() keeps them. */
export const FIGURES = {packets: 0, bytes: 1, opened: 2};

export const keyOf = (vip, dip) => `dip ${vip} ${dip}`;

/** Follows one VIP: shares are measured since they last changed, but over a minute at most, so that what was measured
 *  and what is expected speak of the same time. */
export class Shares {
	constructor(vip) {
		this.vip = vip;
		this.signature = null;
		this.since = 0;
		this.dips = [];
	}

	/** The DIPs as of a moment. */
	see(dips, t) {
		const signature = dips.map((d) => `${d.id}=${d.dcodes}`).join(" ");
		if (signature !== this.signature)
			this.since = t;
		this.signature = signature;
		this.dips = dips;
	}

	expected() {
		const all = this.dips.reduce((n, d) => n + d.dcodes, 0);
		return new Map(this.dips.map((d) => [d.id, all ? d.dcodes / all : NaN]));
	}

	/** Where the measuring begins. */
	from() {
		const last = samples(keyOf(this.vip, this.dips[0]?.id)).at(-1)?.[0] ?? 0;
		return Math.max(this.since, last - WINDOW_MS);
	}

	/** {shares: by id, sum: of how many, seconds} */
	measured(figure) {
		const from = this.from();
		const grown = new Map();
		let sum = 0;
		let to = from;
		for (const d of this.dips) {
			const list = samples(keyOf(this.vip, d.id));
			const first = list.find((s) => s[0] >= from);
			const last = list.at(-1);
			const n = first && last ? Math.max(0, last[figure + 1] - first[figure + 1]) : 0;
			grown.set(d.id, n);
			sum += n;
			to = Math.max(to, last?.[0] ?? from);
		}
		return {shares: new Map([...grown].map(([id, n]) => [id, sum ? n / sum : NaN])), sum, seconds: (to - from) / 1000};
	}
}
