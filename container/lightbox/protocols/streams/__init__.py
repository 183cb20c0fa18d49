"""Streams of frames: WebSockets whose binary messages are images and whose text messages are the predictions."""
