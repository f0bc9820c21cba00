# One panel of a figure: blocks of points of the file `data`, one for each series, a line of kind `kind` each.
# The caller has set range, tics and labels; TYPES[i] is the line type of block i.
if (kind eq "curves") {
	plot for [i = 1:N] data index (i - 1) using 1:2 with linespoints linetype TYPES[i] notitle
}
if (kind eq "lines") {
	plot for [i = 1:N] data index (i - 1) using 1:2 with lines linetype TYPES[i] notitle
}
if (kind eq "points") {
	plot for [i = 1:N] data index (i - 1) using 1:2 with points linetype TYPES[i] notitle
}
if (kind eq "bars") {
	# What is nothing has no bar on any scale, but its 0 is written.
	plot for [i = 1:N] data index (i - 1) using 1:2 with boxes fillstyle solid noborder \
			linetype TYPES[i] notitle, \
		for [i = 1:N] data index (i - 1) using 1:3:4 with labels rotate left offset 0,0.3 \
			font ",10" noenhanced notitle
}
