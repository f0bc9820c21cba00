# Colours, points and sizes, the same in all figures; loaded once the terminal is set. What is safe for the
# colour-blind: Okabe and Ito's palette. Line type 1 is Concury, the strongest; the others are as catalogue.py
# counts them. Type N + 20 is what was published of N: dashed and hollow.
array COLOURS[12] = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", \
	"#444444", "#7b3fa0", "#8c6d31", "#999999", "#1b7f8c", "#b03060"]
array FULL[12] = [7, 5, 9, 11, 13, 15, 2, 1, 3, 8, 10, 12]
array HOLLOW[12] = [6, 4, 8, 10, 12, 14, 2, 1, 3, 8, 10, 12]
do for [i = 1:12] {
	set linetype i linecolor rgb COLOURS[i] linewidth (i == 1 ? 3.2 : 1.6) pointtype FULL[i] \
		pointsize (i == 1 ? 1.1 : 0.9)
	set linetype (i + 20) linecolor rgb COLOURS[i] linewidth 1.4 dashtype (6, 5) pointtype HOLLOW[i] \
		pointsize 1.1
}
set border 3 linecolor rgb "#555555"
set grid ytics linecolor rgb "#dddddd" linewidth 1 dashtype solid
set tics nomirror
set title noenhanced offset 0,-0.6
set xlabel noenhanced
set format y "%g"
set encoding utf8
