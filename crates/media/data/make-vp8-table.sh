#!/bin/sh
# Regenerates vp8_25fps_400k.csv: the sizes of VP8 frames that libvpx makes of a moving synthetic scene.
# Needs ffmpeg and ffprobe with libvpx. The scene comes from ffmpeg's own generators; no recording is involved.
# One thread, so that the same versions give the same bytes.
set -eu
cd "$(dirname "$0")"
table=vp8_25fps_400k.csv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A zoom into a fractal (slow change everywhere), a test pattern with a moving inset, and sensor noise.
scene='mandelbrot=size=480x360:rate=25:maxiter=200[far];testsrc2=size=160x120:rate=25[near];'\
'[far][near]overlay=x=150+140*sin(t*0.9):y=110+100*cos(t*0.6),noise=alls=4:allf=t:all_seed=1'
# Real-time settings in the manner of WebRTC: constant rate, no look-ahead, no alternate reference frames, a small
# rate-control buffer, a key frame every ten seconds. The target is one per cent under the nominal rate: libvpx overshoots
# a little, and the mean must not exceed what a multiplexer with exactly 400 kbit/s for video carries.
settings='-c:v libvpx -deadline realtime -cpu-used 4 -b:v 396k -minrate 396k -maxrate 396k -bufsize 240k '\
'-lag-in-frames 0 -auto-alt-ref 0 -error-resilient 1 -static-thresh 0 -undershoot-pct 50 -overshoot-pct 15 '\
'-max-intra-rate 600 -g 250 -keyint_min 250 -threads 1 -pix_fmt yuv420p -fflags +bitexact -flags +bitexact'

# shellcheck disable=SC2086
ffmpeg -nostdin -hide_banner -loglevel error -filter_complex_threads 1 -filter_complex "$scene" -t 30 -r 25 \
  $settings -f ivf "$work/scene.ivf"
{
    echo "# Frame sizes of VP8, 25 frames/s, 400 kbit/s, 30 s of a synthetic scene. Made by make-vp8-table.sh:"
    echo "# ffmpeg -filter_complex_threads 1 -filter_complex \"$scene\" -t 30 -r 25 $settings -f ivf scene.ivf"
    echo "# ffprobe -select_streams v:0 -show_entries packet=size,flags -of csv=p=0 scene.ivf"
    echo "# $(ffmpeg -version | head -n 1 | cut -d' ' -f1-3)"
    echo "# $(strings -a "$(ldconfig -p | sed -n 's/.*libvpx\.so\.[0-9]* .*=> //p' | head -n 1)" | grep -m 1 '^WebM Project VP8 Encoder')"
    echo "size_bytes,key"
    ffprobe -loglevel error -select_streams v:0 -show_entries packet=size,flags -of csv=p=0 "$work/scene.ivf" |
        sed -e 's/,K.*/,1/' -e 's/,_.*/,0/'
} > "$work/$table"
mv "$work/$table" "$table"
