"""The page's theme, style sheet and keyboard shortcuts. Nothing is loaded from the network."""

from __future__ import annotations

from pathlib import Path

import gradio as gr
from gradio.themes.utils import fonts, sizes

_FOLDER = Path(__file__).parent
STYLE = _FOLDER / "page.css"
KEYS = (_FOLDER / "keys.js").read_text(encoding="utf-8")
DICE = "() => String(Math.floor(Math.random() * 2 ** 32))"


def make_theme() -> gr.themes.Base:
    """Greys and one colour. The style sheet sets the system's fonts: gradio would quote these keywords."""
    base = gr.themes.Base(
        primary_hue=gr.themes.colors.indigo,
        neutral_hue=gr.themes.colors.slate,
        radius_size=sizes.radius_lg,
        font=[fonts.Font("sans-serif")],
        font_mono=[fonts.Font("monospace")],
    )
    return base.set(
        body_background_fill="*neutral_50",
        body_background_fill_dark="*neutral_950",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_400",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_400",
        input_placeholder_color="*neutral_500",
        input_placeholder_color_dark="*neutral_400",
        block_background_fill="white",
        block_background_fill_dark="*neutral_900",
        block_border_width="1px",
        block_border_color="*neutral_200",
        block_border_color_dark="*neutral_800",
        block_shadow="none",
        block_label_background_fill="transparent",
        block_label_border_width="0px",
        block_title_text_weight="600",
        block_title_text_size="*text_sm",
        block_info_text_size="*text_xs",
        input_background_fill="*neutral_50",
        input_background_fill_dark="*neutral_800",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        button_primary_text_color="white",
        button_cancel_background_fill="white",
        button_cancel_background_fill_hover="*neutral_100",
        button_cancel_text_color="#b42318",
        button_cancel_border_color="#f0c8c4",
        layout_gap="16px",
    )
