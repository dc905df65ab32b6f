/* VP8 by libvpx, in plain numbers: the layouts of libvpx's structures stay on this side, as its own headers have them. */

#include <stdint.h>
#include <stdlib.h>
#include <vpx/vp8cx.h>
#include <vpx/vp8dx.h>
#include <vpx/vpx_decoder.h>
#include <vpx/vpx_encoder.h>

struct encoder {
    vpx_codec_ctx_t context;
    vpx_codec_enc_cfg_t config;
    vpx_codec_pts_t frame;
};

/* 0 is the finest quality, 63 the coarsest. */
enum { FINEST = 4, COARSEST = 63 };

struct planes {
    const uint8_t *data[3];
    int stride[3];
    unsigned width, height;
};

/* NULL: libvpx is of another version than its headers, refuses the size, or memory is short. */
struct encoder *taut_vp8_encoder(unsigned width, unsigned height, unsigned rate, unsigned kbps, unsigned threads) {
    struct encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder) return NULL;
    vpx_codec_iface_t *interface = vpx_codec_vp8_cx();
    vpx_codec_enc_cfg_t *config = &encoder->config;
    if (vpx_codec_enc_config_default(interface, config, 0)) goto failed;
    config->g_w = width;
    config->g_h = height;
    config->g_timebase.num = 1;
    config->g_timebase.den = (int)rate;
    config->g_threads = threads;
    config->g_lag_in_frames = 0;
    config->g_pass = VPX_RC_ONE_PASS;
    /* Probabilities are a key frame's: a frame that is lost changes none. */
    config->g_error_resilient = VPX_ERROR_RESILIENT_DEFAULT;
    config->rc_end_usage = VPX_CBR;
    config->rc_target_bitrate = kbps;
    config->rc_dropframe_thresh = 0;
    config->rc_min_quantizer = FINEST;
    config->rc_max_quantizer = COARSEST;
    config->rc_undershoot_pct = 100;
    config->rc_overshoot_pct = 15;
    config->rc_buf_sz = 600;
    config->rc_buf_initial_sz = 300;
    config->rc_buf_optimal_sz = 400;
    /* Key frames are made when they are asked for. */
    config->kf_mode = VPX_KF_DISABLED;
    if (vpx_codec_enc_init(&encoder->context, interface, config, 0)) goto failed;
    /* Real time at any cost in size; three average frames for a key frame, but what goes in 100 ms at most, and one at least. */
    unsigned key = rate >= 30 ? 300 : rate <= 10 ? 100 : 10 * rate;
    if (vpx_codec_control(&encoder->context, VP8E_SET_CPUUSED, -8) ||
        vpx_codec_control(&encoder->context, VP8E_SET_MAX_INTRA_BITRATE_PCT, key) ||
        vpx_codec_control(&encoder->context, VP8E_SET_NOISE_SENSITIVITY, 0u)) {
        vpx_codec_destroy(&encoder->context);
        goto failed;
    }
    return encoder;
failed:
    free(encoder);
    return NULL;
}

int taut_vp8_set_bitrate(struct encoder *encoder, unsigned kbps) {
    encoder->config.rc_target_bitrate = kbps;
    return vpx_codec_enc_config_set(&encoder->context, &encoder->config);
}

/* What comes behind a coarse key frame is no finer than seven eighths of that, the next than of that again: by itself libvpx goes by what frames took before it, and
 * makes one that has all that the key frame left out, ten times as long as an average one. */
static void refine(struct encoder *encoder, int key, int quantizer) {
    unsigned finest = key ? (unsigned)quantizer : encoder->config.rc_min_quantizer;
    finest = finest * 7 / 8 > FINEST ? finest * 7 / 8 : FINEST;
    if (finest == encoder->config.rc_min_quantizer) return;
    encoder->config.rc_min_quantizer = finest;
    /* Refused, it is as before. */
    (void)vpx_codec_enc_config_set(&encoder->context, &encoder->config);
}

/* What a frame may refer to and what it replaces, as bits: `refers` and `replaces` of 1 last, 2 golden, 4 alternative; `refers` 0: a key frame,
 * which replaces all. The bytes belong to the encoder until it is called again; `coarsest`: nothing would make them fewer.
 * 0: well; else libvpx's error, or -1: it made no frame. */
int taut_vp8_encode(struct encoder *encoder, const struct planes *planes, unsigned refers, unsigned replaces,
                    const uint8_t **bytes, size_t *length, int *key, int *coarsest) {
    vpx_image_t image;
    if (!vpx_img_wrap(&image, VPX_IMG_FMT_I420, planes->width, planes->height, 1, (unsigned char *)planes->data[0])) return -1;
    for (int i = 0; i < 3; i++) {
        image.planes[i] = (unsigned char *)planes->data[i];
        image.stride[i] = planes->stride[i];
    }
    vpx_enc_frame_flags_t flags = VPX_EFLAG_FORCE_KF;
    if (refers) {
        flags = VP8_EFLAG_NO_UPD_ENTROPY;
        if (!(refers & 1)) flags |= VP8_EFLAG_NO_REF_LAST;
        if (!(refers & 2)) flags |= VP8_EFLAG_NO_REF_GF;
        if (!(refers & 4)) flags |= VP8_EFLAG_NO_REF_ARF;
        flags |= replaces & 1 ? 0 : VP8_EFLAG_NO_UPD_LAST;
        flags |= replaces & 2 ? VP8_EFLAG_FORCE_GF : VP8_EFLAG_NO_UPD_GF;
        flags |= replaces & 4 ? VP8_EFLAG_FORCE_ARF : VP8_EFLAG_NO_UPD_ARF;
    }
    int failed = vpx_codec_encode(&encoder->context, &image, encoder->frame++, 1, flags, VPX_DL_REALTIME);
    int quantizer = 0;
    if (!failed) failed = vpx_codec_control(&encoder->context, VP8E_GET_LAST_QUANTIZER_64, &quantizer);
    if (failed) return failed;
    vpx_codec_iter_t iterator = NULL;
    const vpx_codec_cx_pkt_t *packet;
    while ((packet = vpx_codec_get_cx_data(&encoder->context, &iterator))) {
        if (packet->kind != VPX_CODEC_CX_FRAME_PKT) continue;
        *bytes = packet->data.frame.buf;
        *length = packet->data.frame.sz;
        *key = (packet->data.frame.flags & VPX_FRAME_IS_KEY) != 0;
        *coarsest = quantizer == COARSEST;
        refine(encoder, *key, quantizer);
        return 0;
    }
    return -1;
}

void taut_vp8_encoder_free(struct encoder *encoder) {
    vpx_codec_destroy(&encoder->context);
    free(encoder);
}

vpx_codec_ctx_t *taut_vp8_decoder(unsigned threads) {
    vpx_codec_ctx_t *decoder = calloc(1, sizeof *decoder);
    vpx_codec_dec_cfg_t config = {.threads = threads};
    if (decoder && vpx_codec_dec_init(decoder, vpx_codec_vp8_dx(), &config, 0)) {
        free(decoder);
        return NULL;
    }
    return decoder;
}

/* The planes belong to the decoder until it is called again. 0: well; else libvpx's error, or -1: there is no picture. */
int taut_vp8_decode(vpx_codec_ctx_t *decoder, const uint8_t *bytes, unsigned length, struct planes *planes) {
    int failed = vpx_codec_decode(decoder, bytes, length, NULL, 0);
    if (failed) return failed;
    vpx_codec_iter_t iterator = NULL;
    const vpx_image_t *image = vpx_codec_get_frame(decoder, &iterator);
    if (!image || image->fmt != VPX_IMG_FMT_I420) return -1;
    for (int i = 0; i < 3; i++) {
        planes->data[i] = image->planes[i];
        planes->stride[i] = image->stride[i];
    }
    planes->width = image->d_w;
    planes->height = image->d_h;
    return 0;
}

void taut_vp8_decoder_free(vpx_codec_ctx_t *decoder) {
    vpx_codec_destroy(decoder);
    free(decoder);
}
