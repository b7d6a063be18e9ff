"""Models at work: folders of images predicted and rectified, and models exported."""
