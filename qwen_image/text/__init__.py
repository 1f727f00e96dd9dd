"""Prompts to prompt_embeds."""
