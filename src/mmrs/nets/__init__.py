"""Networks: encoders, the VAE of the appendix, input statistics."""
